"""PageRank, components, paths and degrees on Spark."""
