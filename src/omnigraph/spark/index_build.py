"""Index builds on Spark: each task builds a part of an index over some pieces of a table, and the driver joins them.

Nothing is visible until the driver lands the joined index; parts that nobody names are removed by a cleanup.
"""

from __future__ import annotations

import base64
import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.spark.session import spark_session
from omnigraph.spark.tasks import errors_of_tasks, one_task_each
from omnigraph.store.indexes import joined, part_of_index, training_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import lance
    from pyspark.sql import SparkSession

    from omnigraph.store.indexes import Build, IndexSpec, VectorTraining
    from omnigraph.store.tables import Table

_TEXT: pa.DataType = pa.string()
BUILT = pa.schema([("part", _TEXT)])
# Joining many parts costs the driver more than they save the executors.
MOST_PARTS = 16


def build_on_spark(session: SparkSession | None = None) -> Build:
    """Builds indexes on Spark; without a session, on the one that `spark_session` finds."""

    def build(table: Table, spec: IndexSpec, pieces: Sequence[int]) -> lance.Index:
        training = training_of(table, spec, shared=True)
        if len(pieces) < 2 or (training is not None and training.partitions == 1):
            return joined(table, spec, [part_of_index(table.dataset, spec, pieces, training)])
        work = _Work(table, spec, training)
        with errors_of_tasks():
            built: Any = one_task_each(session or spark_session(), _groups(pieces), work, BUILT).toArrow()
        return joined(table, spec, [_decoded(each) for each in built.column("part").to_pylist()])

    return build


def _groups(pieces: Sequence[int]) -> list[list[int]]:
    """The pieces in groups of about one size."""
    return [group for number in range(MOST_PARTS) if (group := list(pieces[number::MOST_PARTS]))]


class _Work:
    """A part of an index over some pieces. Travels to the executors by pickle."""

    def __init__(self, table: Table, spec: IndexSpec, training: VectorTraining | None) -> None:
        self._place = table.dataset.uri, table.version, table.dataset.initial_storage_options
        self._what = spec, training

    def __call__(self, pieces: list[int]) -> Iterator[pa.RecordBatch]:
        # Imported in the task: the process that workers are forked from must not have it.
        import lance

        uri, version, options = self._place
        spec, training = self._what
        part = part_of_index(lance.dataset(uri, version=version, storage_options=options), spec, pieces, training)
        yield pa.record_batch([[base64.b64encode(pickle.dumps(part)).decode()]], schema=BUILT)


def _decoded(text: str) -> lance.Index:
    # What the tasks of this very job have answered.
    return pickle.loads(base64.b64decode(text))  # noqa: S301
