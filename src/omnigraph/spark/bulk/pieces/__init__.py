"""What tasks write: fragments of tables, staged, and which committed rows they take the place of."""
