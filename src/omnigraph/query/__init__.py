"""Read queries: a checked query over one snapshot, answered as Arrow."""
