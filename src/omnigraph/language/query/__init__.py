"""The `.gq` query language."""
