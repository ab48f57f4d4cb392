"""Following edges: neighbours from a table or from memory, walks, counts of walks, shortest paths."""
