"""Graph algorithms on Spark over one state of the graph, and their results written back as properties."""
