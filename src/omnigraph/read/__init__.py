"""Reads: a checked query over one immutable snapshot, answered as Arrow."""
