"""Graph algorithms on Spark: PageRank, components, communities, paths, triangles and degrees."""
