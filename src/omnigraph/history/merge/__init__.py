"""Three-way merge and revert."""
