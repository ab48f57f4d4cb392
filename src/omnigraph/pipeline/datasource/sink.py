"""Loads the micro-batches of a Spark stream into a graph, each as one commit, exactly once.

    stream.writeStream.foreachBatch(og.stream_into("./graph.omni", "Person", mode="merge")).start()

A batch that runs again, after a failure or a restart from a checkpoint, has the same idempotency key and makes no
second commit.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from pyspark.sql.utils import is_remote

from omnigraph.deprecation import renamed_keywords
from omnigraph.errors import InvalidInput
from omnigraph.load.plan import FAIL, ErrorPolicy, LoadOptions
from omnigraph.manifest.layout import MAIN
from omnigraph.pipeline.datasource.options import GraphReference
from omnigraph.spark.load import load_frames

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from omnigraph.transaction.commit.protocol import Receipt

# The thread-local property in which Spark stores the id of the streaming query.
_QUERY = "sql.streaming.queryId"


@renamed_keywords(errors="on_error", removed_in="0.3")
def stream_into(
    graph: str | os.PathLike[str],
    type_name: str,
    *,
    mode: Literal["append", "merge"] = "merge",
    branch: str = MAIN,
    name: str | None = None,
    actor: str | None = None,
    on_error: ErrorPolicy | Literal["fail"] = "fail",
    storage_options: Mapping[str, str] | None = None,
) -> StreamSink:
    """A function for `foreachBatch` that loads every micro-batch into one type, as one commit, exactly once.

    Keys are made of the query's id, which its checkpoint keeps, and the batch's number; `name` replaces the id, which
    a Spark Connect session does not provide. `on_error` is that of `Graph.load`.
    """
    if mode not in ("append", "merge"):
        raise InvalidInput(f"a stream is added with mode append or merge, not {mode!r}.")
    reference = GraphReference(str(graph), tuple(sorted((storage_options or {}).items())))
    reference.catalog().resolve_type(type_name)
    errors = LoadOptions(mode=mode, branch=branch, on_error=on_error).errors
    return StreamSink(reference, type_name, mode, branch, name, actor, errors)


@dataclass(frozen=True)
class StreamSink:
    """Loads micro-batches into one type; called by Spark with each."""

    _reference: GraphReference = field(repr=False)
    type_name: str
    mode: Literal["append", "merge"]
    branch: str
    name: str | None = None
    actor: str | None = None
    errors: ErrorPolicy = FAIL

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Load one micro-batch; what Spark calls."""
        self.load(frame, batch)

    def load(self, frame: DataFrame, batch: int) -> Receipt:
        """Load one micro-batch."""
        key = f"{self.name or _query_of(frame)}:{batch}"
        receipt, _ = load_frames(
            self._reference.manifest(),
            self._reference.catalog(self.branch),
            {self.type_name: frame},
            LoadOptions(
                mode=self.mode,
                branch=self.branch,
                actor=self.actor,
                idempotency_key=key,
                on_error=self._errors(batch),
            ),
        )
        return receipt

    def _errors(self, batch: int) -> ErrorPolicy:
        """Every batch has a table of rejects of its own."""
        path = self.errors.path
        return self.errors if path is None else replace(self.errors, path=f"{path.rstrip('/')}/batch-{batch}")


def _query_of(frame: DataFrame) -> str:
    found = None if is_remote() else frame.sparkSession.sparkContext.getLocalProperty(_QUERY)
    if not found:
        raise InvalidInput("the session does not provide the id of the streaming query: pass a name to stream_into.")
    return found
