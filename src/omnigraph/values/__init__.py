"""Values and columns converted to their declared types."""
