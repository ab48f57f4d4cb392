"""What changed between two states of the graph, and how two lines of change become one."""
