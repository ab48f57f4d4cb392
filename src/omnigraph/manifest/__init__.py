"""Which versions make up the graph."""
