"""Plans a checked query: operators, their order, and estimates."""
