"""OmniGraph: a lakehouse graph database on Lance and Spark.

    import omnigraph as og
    g = og.init("./graph.omni", schema=Path("schema.pg"))
    g.mutate('query add($n: String) { insert Person { name: $n } }', {"n": "Ada"})

Importing this package loads nothing heavy: each name brings its module when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from omnigraph import errors

if TYPE_CHECKING:
    from omnigraph.graph import Graph
    from omnigraph.loading import Loaded
    from omnigraph.mutating import Mutated
    from omnigraph.opening import init
    from omnigraph.opening import open_graph as open  # noqa: A004 - og.open, as in gzip.open
    from omnigraph.spark.datasource import register_spark
    from omnigraph.spark.pipeline.pipeline import Pipeline
    from omnigraph.spark.streaming.sink import stream_into
    from omnigraph.write.load.error_policy import quarantine

__all__ = [
    "Graph",
    "Loaded",
    "Mutated",
    "Pipeline",
    "errors",
    "init",
    "open",
    "quarantine",
    "register_spark",
    "stream_into",
]
__version__ = "0.1.0"

_PLACES = {
    "Graph": ("omnigraph.graph", "Graph"),
    "Loaded": ("omnigraph.loading", "Loaded"),
    "Mutated": ("omnigraph.mutating", "Mutated"),
    "Pipeline": ("omnigraph.spark.pipeline.pipeline", "Pipeline"),
    "init": ("omnigraph.opening", "init"),
    "open": ("omnigraph.opening", "open_graph"),
    "quarantine": ("omnigraph.write.load.error_policy", "quarantine"),
    "register_spark": ("omnigraph.spark.datasource", "register_spark"),
    "stream_into": ("omnigraph.spark.streaming.sink", "stream_into"),
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _PLACES[name]
    found = globals()[name] = getattr(import_module(module), attribute)
    return found
