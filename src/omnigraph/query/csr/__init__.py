"""Adjacency in compressed sparse rows: built, carried forward to newer versions, traversed."""
