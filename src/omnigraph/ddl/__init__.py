"""Schema changes: the new column layout, checks of existing rows, and the branches that follow."""
