"""Checked expressions as SQL: built once, rendered for DuckDB and for Spark, so that the two cannot drift apart."""
