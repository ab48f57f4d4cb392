"""Pipeline files: sources, mappings and targets of a data pipeline on Spark."""
