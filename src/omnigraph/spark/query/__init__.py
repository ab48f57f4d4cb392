"""Reads on Spark: the plan of the embedded engine, its steps as joins of frames, its expressions as Spark's SQL."""
