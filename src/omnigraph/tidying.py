"""Who builds indexes and rewrites tables: this process (None), or Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.engines import require_engine

if TYPE_CHECKING:
    from omnigraph.store.compaction import Execute
    from omnigraph.store.indexes import Build


def index_builder(engine: str) -> Build | None:
    """Who builds the parts of an index."""
    if not _on_spark(engine, "building indexes on Spark"):
        return None
    from omnigraph.spark.index_build import build_on_spark

    return build_on_spark()


def rewriter(engine: str) -> Execute | None:
    """Who joins small pieces."""
    if not _on_spark(engine, "optimize on Spark"):
        return None
    from omnigraph.spark.compaction import execute_on_spark

    return execute_on_spark()


def _on_spark(engine: str, what: str) -> bool:
    require_engine(engine)
    if engine != "spark":
        return False
    from omnigraph.spark.installed import require_spark

    require_spark(what)
    return True
