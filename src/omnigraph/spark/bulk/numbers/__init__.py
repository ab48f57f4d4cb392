"""Ids and tuples of values as 64-bit numbers: drawn from rows, written down, brought together, looked up."""
