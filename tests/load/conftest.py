"""The graph made by hand and the processes of the transaction tests."""

from __future__ import annotations

from transaction.conftest import graph, uri, zygote

__all__ = ["graph", "uri", "zygote"]
