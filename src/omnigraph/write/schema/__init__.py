"""Changing the schema of a graph: what rows must satisfy, how they come into their new shape, and the one commit."""
