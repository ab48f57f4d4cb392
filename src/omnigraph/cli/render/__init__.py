"""How commands print rows, changes, commits and reports."""
