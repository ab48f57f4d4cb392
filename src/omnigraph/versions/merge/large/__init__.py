"""Merges that are larger than memory should hold: changed rows wait on disk, and are settled piece by piece."""
