"""OmniGraph: a lakehouse graph database on Lance and Spark.

    import omnigraph as og
    g = og.init("./graph.omni", schema=Path("schema.pg"))
    g.mutate('query add($n: String) { insert Person { name: $n } }', {"n": "Ada"})

Importing this package loads nothing heavy: each name loads its module when it is first used. `__init__.pyi` tells type
checkers where the names are.
"""

from __future__ import annotations

import sys

from omnigraph import errors, types
from omnigraph.deprecation import install_moved_modules
from omnigraph.lazy import lazy_names

if sys.platform == "win32":
    raise ImportError("omnigraph needs a POSIX system, for file locks and process ids: on Windows, run it in WSL")

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
    "spark_session",
    "stream_into",
    "types",
]
__version__ = "0.1.0"

__getattr__ = lazy_names(
    __name__,
    {
        "Graph": "omnigraph.graph.graph:Graph",
        "Loaded": "omnigraph.graph.backends:Loaded",
        "Mutated": "omnigraph.mutation.run:Mutated",
        "Pipeline": "omnigraph.pipeline.pipeline:Pipeline",
        "init": "omnigraph.graph.open:init",
        "open": "omnigraph.graph.open:open_graph",
        "quarantine": "omnigraph.load.plan:quarantine",
        "register_spark": "omnigraph.pipeline.datasource.source:register_spark",
        "spark_session": "omnigraph.spark.runtime.session:spark_session",
        "stream_into": "omnigraph.pipeline.datasource.sink:stream_into",
    },
)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


install_moved_modules()
