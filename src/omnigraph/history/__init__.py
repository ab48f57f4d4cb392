"""History of the graph: diff, change feed, one entity through time, merge and revert."""
