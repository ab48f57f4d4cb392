"""Work in rounds: each round's result is settled, so that the next one starts from rows and not from a longer plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.utils import is_remote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, Row, SparkSession


def settle(frame: DataFrame) -> DataFrame:
    """Compute a frame now and keep its rows: on the executors, or, where the session has a checkpoint directory,
    there, where the loss of an executor cannot take them.
    """
    return frame.checkpoint() if _has_directory(frame.sparkSession) else frame.localCheckpoint()


def totals(frame: DataFrame, **sums: Column) -> Row:
    """One row of aggregates over a whole frame, by name."""
    return _only_row(frame.agg(*(each.alias(name) for name, each in sums.items())).collect())


def partitions_of(frame: DataFrame) -> int:
    """How many partitions a shuffle of this session makes."""
    return int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or "200")


def _has_directory(session: SparkSession) -> bool:
    if is_remote():
        return bool(session.conf.get("spark.checkpoint.dir", None))
    return session.sparkContext.getCheckpointDir() is not None


def _only_row(rows: Sequence[Row]) -> Row:
    (row,) = rows
    return row
