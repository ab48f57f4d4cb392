"""Partitioned work without an engine of its own: scans, written fragments, hash runs."""
