"""Bulk loads of any size: tasks write fragments, the driver validates and commits them once."""
