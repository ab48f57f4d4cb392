"""The schema as it is stored beside a graph: source, JSON form, hash."""
