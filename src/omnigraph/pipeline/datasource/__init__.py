"""Spark's Data Source API: `spark.read`, `df.write`, and streams in both directions."""
