"""Columns of tables by row number, cached and carried forward to newer versions."""
