"""The operators of a query plan, and the working set that they fill."""
