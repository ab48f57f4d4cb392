"""What changed between two states: diff, change feed, one entity through time, merge."""
