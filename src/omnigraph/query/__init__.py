"""Read queries: a checked query over one snapshot, with an Arrow result."""
