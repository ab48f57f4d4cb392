"""Translates checked expressions: to filters for Lance, to SQL for DuckDB and Spark, to constants."""
