"""The `.gq` query language: syntax, semantic checks, lint."""
