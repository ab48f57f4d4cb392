"""Results: Arrow, text, JSON, pictures."""
