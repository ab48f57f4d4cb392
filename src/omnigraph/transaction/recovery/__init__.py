"""Unfinished operations, rolled forward or back."""
