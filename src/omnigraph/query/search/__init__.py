"""Full-text and vector search over one table."""
