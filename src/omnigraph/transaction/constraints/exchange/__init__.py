"""Constraint checks over more rows than fit in memory: hashes are compared first, candidate rows are fetched after."""
