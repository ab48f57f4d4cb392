"""Spark as the second execution engine: loads, merges, queries, maintenance, exports and graph analytics."""
