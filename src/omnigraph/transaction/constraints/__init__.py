"""Validation of keys, endpoints, cardinalities and values over committed and buffered rows."""
