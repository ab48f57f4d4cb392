"""Export of one snapshot to files: graph records, Parquet or CSV."""
