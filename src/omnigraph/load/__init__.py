"""Loads: turn files, records and Arrow tables into typed rows, written as one commit."""
