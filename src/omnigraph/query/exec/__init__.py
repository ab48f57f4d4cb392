"""Runs the operators of a query plan over batches of variable bindings."""
