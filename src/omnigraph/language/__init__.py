"""Text in, typed trees out. Knows nothing of storage."""
