"""Staged index builds: more files beside a table, the same rows."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from lance import LanceOperation, Transaction

from omnigraph.errors import InvalidInput, ObjectExists
from omnigraph.store.filters import IsNull, Not
from omnigraph.store.lance_errors import lance_errors
from omnigraph.store.staging import Staged

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import lance

    from omnigraph.store.tables import Table

    Build = Callable[[Table, "IndexSpec", Sequence[int]], lance.Index]

IndexKind = Literal["btree", "inverted", "vector", "label_list"]
_LANCE_KIND = {"btree": "BTREE", "inverted": "INVERTED", "vector": "IVF_FLAT", "label_list": "LABEL_LIST"}

# Up to here looking at every vector takes less than a hundredth of a second.
_PARTITIONED = 50_000
# So many vectors for each partition are looked at to find its centre.
_SAMPLES = 256

_CAN_INDEX: dict[IndexKind, Callable[[pa.DataType], bool]] = {
    "btree": lambda kind: not pa.types.is_nested(kind),
    "inverted": lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind),
    "vector": pa.types.is_fixed_size_list,
    "label_list": pa.types.is_list,
}


@dataclass(frozen=True)
class IndexSpec:
    """An index to build. `metric` is for vectors alone.

    A vector index of a small table has one partition, which searches exactly; that of a large one has several, of which
    a search looks at the nearest.
    """

    column: str
    kind: IndexKind
    name: str
    metric: Literal["L2", "cosine", "dot"] = "L2"


@dataclass(frozen=True)
class VectorTraining:
    """Into how many partitions vectors go, and the centres of those when several workers must agree on them."""

    partitions: int
    centroids: Any = None


def index_names(table: Table) -> frozenset[str]:
    """The names of the indexes the table has."""
    with lance_errors(f"listing the indexes of {table.path}"):
        return frozenset(each.name for each in table.dataset.describe_indices())


def stage_indexes(table: Table, specs: Sequence[IndexSpec], build: Build | None = None) -> Staged:
    """Build indexes over all rows of the table as one transaction. `build`: who does the work; None: this process."""
    taken = index_names(table).intersection(each.name for each in specs)
    if taken:
        raise ObjectExists(f"{table.path} has an index {min(taken)} already", location=table.path)
    for spec in specs:
        _require_column(table, spec)
    with lance_errors(f"building indexes for {table.path}"):
        built = [(build or _build)(table, spec, table.fragment_ids()) for spec in specs]
    operation = LanceOperation.CreateIndex(built, [])
    return Staged(table, "index", Transaction(table.version, operation))


def build_segment(table: Table, spec: IndexSpec, pieces: Sequence[int], build: Build | None = None) -> lance.Index:
    """A part of an index, over some of the table's pieces; the index may be there already."""
    _require_column(table, spec)
    return (build or _build)(table, spec, pieces)


def part_of_index(
    dataset: lance.LanceDataset, spec: IndexSpec, pieces: Sequence[int], training: VectorTraining | None
) -> lance.Index:
    """What one worker builds of an index. Parts are joined with `joined`, also a single one."""
    options: dict[str, object] = {}
    if training is not None:
        options = {"num_partitions": training.partitions, "metric": spec.metric}
        if training.centroids is not None:
            options["ivf_centroids"] = training.centroids
    # Nobody else may use a handle while Lance builds with it, and ours are shared by threads.
    return copy(dataset).create_index_uncommitted(
        spec.column, _LANCE_KIND[spec.kind], name=spec.name, fragment_ids=list(pieces), replace=True, **options
    )


def joined(table: Table, spec: IndexSpec, parts: Sequence[lance.Index]) -> lance.Index:
    """One segment of the parts that were built of it."""
    if len(parts) == 1 and spec.kind != "inverted":
        return parts[0]
    # A text segment holds only staging files; committed as it is, every search fails on the missing token file.
    return table.dataset.merge_existing_index_segments(list(parts))


def training_of(table: Table, spec: IndexSpec, *, shared: bool = False) -> VectorTraining | None:
    """What a vector index needs; `shared`: its parts are built apart, around the same centres, so that they fit."""
    if spec.kind != "vector":
        return None
    partitions = vector_partitions(table.count_rows())
    if not shared or partitions == 1:
        return VectorTraining(partitions)
    vectors = table.count_rows(Not(IsNull(spec.column)))
    from lance.indices import IndicesBuilder

    with lance_errors(f"training an index of {table.path}"):
        model = IndicesBuilder(table.dataset, spec.column).train_ivf(
            partitions, distance_type=spec.metric, sample_rate=max(1, min(_SAMPLES, vectors // partitions))
        )
    return VectorTraining(partitions, model.centroids)


def _require_column(table: Table, spec: IndexSpec) -> None:
    if spec.column not in table.schema.names:
        raise InvalidInput(f"{table.path} has no column {spec.column!r} to index")
    kind = table.schema.field(spec.column).type
    if not _CAN_INDEX[spec.kind](kind):
        raise InvalidInput(f"column {spec.column!r} of {table.path} is of type {kind}: no {spec.kind} index fits it")


def vector_partitions(rows: int) -> int:
    """Into how many partitions an index of so many vectors is cut: a search then looks at some thousand of them."""
    return 1 if rows < _PARTITIONED else math.isqrt(rows)


def _build(table: Table, spec: IndexSpec, pieces: Sequence[int]) -> lance.Index:
    return joined(table, spec, [part_of_index(table.dataset, spec, pieces, training_of(table, spec))])
