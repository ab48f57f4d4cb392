"""The `omnigraph` command line over `omnigraph.graph.graph.Graph`.

One file per command group. Files that declare commands do without `from __future__ import annotations`: typer reads the
annotations. They import the engine inside their functions, so that help, lint and plans on files start at once.
"""
