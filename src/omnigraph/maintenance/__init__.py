"""Indexes, compaction, garbage collection and repair."""
