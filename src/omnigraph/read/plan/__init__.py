"""From a checked pattern to operators in the order in which they run."""
