"""Constraints over more rows than fit in memory: hashes meet first, rows are fetched after."""
