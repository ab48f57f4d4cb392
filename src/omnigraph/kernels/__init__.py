"""Arrow, NumPy and DuckDB primitives that know nothing of graphs."""
