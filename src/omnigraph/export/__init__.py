"""One snapshot written as files: graph records, Parquet or CSV."""
