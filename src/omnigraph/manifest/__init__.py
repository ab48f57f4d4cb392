"""Which version of each table makes up the graph: branches, commits, publishing."""
