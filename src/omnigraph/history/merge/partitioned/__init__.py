"""Merges larger than memory, a group of hash partitions at a time."""
