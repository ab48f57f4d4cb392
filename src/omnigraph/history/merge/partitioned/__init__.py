"""Merges larger than memory, one hash partition at a time."""
