"""The commit protocol."""
