"""Merges on Spark: tasks read what differs, settle it part by part, and write the rows; the driver commits."""
