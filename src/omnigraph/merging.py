"""Who works on a merge that is too large for memory: this process, in pieces, or Spark."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from omnigraph.engines import require_engine
from omnigraph.spark.installed import require_spark
from omnigraph.versions.merge.large.budget import MergeBudget
from omnigraph.versions.merge.large.in_pieces import InPieces
from omnigraph.versions.merge.large.waiting import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from omnigraph.versions.merge.reconcile import Workshop
    from omnigraph.world import World

Engine = Literal["auto", "local", "spark"]
BUDGET = MergeBudget()


@contextmanager
def workshop(engine: Engine, spark: SparkSession | None, world: World, *, dry_run: bool = False) -> Iterator[Workshop]:
    """Where large merges are worked on; what lies there is gone at the end.

    `spark` works on every merge, on a session of its own if there is none; `auto` takes a session that is there, and
    only for merges that are too large for memory.
    """
    require_engine(engine)
    with Place() as place:
        session = spark if engine != "auto" or spark is not None else _at_hand()
        if engine == "local" or (engine == "auto" and session is None):
            yield InPieces(place, BUDGET)
            return
        require_spark("this merge")
        from omnigraph.spark.load import load_session
        from omnigraph.spark.merge.workshop import OnSpark

        name = f"omnigraph_merge_{world.ulid().lower()}"
        budget = BUDGET if engine == "auto" else None
        yield OnSpark(session or load_session(world=world), place, name, budget, writes=not dry_run)


def _at_hand() -> SparkSession | None:
    if "pyspark" not in sys.modules:
        return None
    from omnigraph.spark.session import session_at_hand

    return session_at_hand()
