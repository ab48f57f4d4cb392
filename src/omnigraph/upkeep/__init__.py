"""Keeping a graph quick and small: indexes, compaction, old versions, repair."""
