"""From a checked query to a plan: operators, their order, estimates."""
