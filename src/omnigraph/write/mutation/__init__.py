"""Checked mutations: statements in order, each seeing what earlier ones did, as one change of the graph."""
