"""Partitioned work that is independent of the engine: scans, written fragments, hash runs."""
