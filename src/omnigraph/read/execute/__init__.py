"""Operators at work: rows of a match are row numbers of tables, values are fetched when something asks for them."""
