"""Loads: files, records and Arrow tables become typed rows, and one commit."""
