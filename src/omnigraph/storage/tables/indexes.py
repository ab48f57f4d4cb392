"""Stages index builds, and extends indexes to rows that were written after them.

Rows that an index does not cover are found by scanning all of them, until the index is extended. An index may have
several segments. A new segment for the new fragments is cheap, but correct only if none of their rows was in the index
before: a text, list or vector segment stores row ids, which an update preserves, and Lance answers with the value that
the older segment has for them. So the creation versions of the rows decide, and if they do not allow a segment the
index is rebuilt.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import lance
import pyarrow as pa
from lance import LanceOperation, Transaction

from omnigraph.errors import InvalidInput, ObjectExists
from omnigraph.kernels.row_address import CREATED_AT
from omnigraph.storage.filters.model import IsNull, Not
from omnigraph.storage.lance.errors import lance_errors
from omnigraph.storage.tables.staging import Staged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from omnigraph.storage.tables.table import Table

    Build = Callable[[Table, "IndexSpec", Sequence[int]], lance.Index]

IndexKind = Literal["btree", "inverted", "vector", "label_list"]
_LANCE_KIND = {"btree": "BTREE", "inverted": "INVERTED", "vector": "IVF_FLAT", "label_list": "LABEL_LIST"}

# Up to this many rows, comparing every vector takes less than a hundredth of a second.
_PARTITIONED = 50_000
# The number of vectors sampled per partition to train its centroid.
_SAMPLES = 256

_CAN_INDEX: dict[IndexKind, Callable[[pa.DataType], bool]] = {
    "btree": lambda kind: not pa.types.is_nested(kind),
    "inverted": lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind),
    "vector": pa.types.is_fixed_size_list,
    "label_list": pa.types.is_list,
}


@dataclass(frozen=True)
class IndexSpec:
    """An index to build. `metric` applies to vector indexes only.

    A vector index of a small table has one partition, which searches exactly; that of a large one has several, of which
    a search probes the nearest.
    """

    column: str
    kind: IndexKind
    name: str
    metric: Literal["L2", "cosine", "dot"] = "L2"


@dataclass(frozen=True)
class VectorTraining:
    """The number of partitions of a vector index, and their centroids if several workers must share them."""

    partitions: int
    centroids: Any = None


@dataclass(frozen=True)
class TableIndex:
    """An index of a table: its name, columns and kind in Lance's words, and the fragments that it covers."""

    name: str
    columns: tuple[str, ...]
    kind: str
    fragments: frozenset[int]


def indexes_of(table: Table) -> list[TableIndex]:
    """The indexes of the table."""
    with lance_errors(f"listing the indexes of {table.path}"):
        return [
            TableIndex(
                each.name,
                tuple(each.field_names),
                each.index_type.upper(),
                frozenset(fragment_id for segment in each.segments for fragment_id in segment.fragment_ids),
            )
            for each in table.handle.describe_indices()
        ]


def index_names(table: Table) -> frozenset[str]:
    """The names of the table's indexes."""
    with lance_errors(f"listing the indexes of {table.path}"):
        return frozenset(each.name for each in table.handle.describe_indices())


def stage_indexes(table: Table, specs: Sequence[IndexSpec], build: Build | None = None) -> Staged:
    """Build indexes over all rows of the table as one transaction. `build` does the work; None: this process."""
    taken = index_names(table).intersection(each.name for each in specs)
    if taken:
        raise ObjectExists(f"{table.path} has an index {min(taken)} already", location=table.path)
    for spec in specs:
        _require_column(table, spec)
    with lance_errors(f"building indexes for {table.path}"):
        built = [(build or _build)(table, spec, table.fragment_ids()) for spec in specs]
    operation = LanceOperation.CreateIndex(built, [])
    return Staged(table, "index", Transaction(table.version, operation))


def build_segment(table: Table, spec: IndexSpec, fragments: Sequence[int], build: Build | None = None) -> lance.Index:
    """Build a segment of an index, which may exist already, over some of the table's fragments."""
    _require_column(table, spec)
    return (build or _build)(table, spec, fragments)


def partial_segment(
    table: Table, spec: IndexSpec, fragments: Sequence[int], training: VectorTraining | None
) -> lance.Index:
    """Build a partial segment of an index, in one worker. Partial segments, even a single one, need `joined`."""
    options: dict[str, object] = {}
    if training is not None:
        options = {"num_partitions": training.partitions, "metric": spec.metric}
        if training.centroids is not None:
            options["ivf_centroids"] = training.centroids
    # No other thread may use a handle while Lance builds with it, and ours are shared.
    return copy(table.handle).create_index_uncommitted(
        spec.column, _LANCE_KIND[spec.kind], name=spec.name, fragment_ids=list(fragments), replace=True, **options
    )


def joined(table: Table, spec: IndexSpec, partials: Sequence[lance.Index]) -> lance.Index:
    """Combine the partial segments of one segment."""
    if len(partials) == 1 and spec.kind != "inverted":
        return partials[0]
    # An unmerged text segment has only staging files; committed as it is, every search fails on the missing token file.
    return table.handle.merge_existing_index_segments(list(partials))


def training_of(table: Table, spec: IndexSpec, *, shared: bool = False) -> VectorTraining | None:
    """Train a vector index; `shared`: partial segments are built apart, and need the same centroids to be combined."""
    if spec.kind != "vector":
        return None
    partitions = vector_partitions(table.count_rows())
    if not shared or partitions == 1:
        return VectorTraining(partitions)
    vectors = table.count_rows(Not(IsNull(spec.column)))
    from lance.indices import IndicesBuilder

    with lance_errors(f"training an index of {table.path}"):
        model = IndicesBuilder(table.handle, spec.column).train_ivf(
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
    """The number of partitions for this many vectors, such that a search probes some thousand of them."""
    return 1 if rows < _PARTITIONED else math.isqrt(rows)


def _build(table: Table, spec: IndexSpec, fragments: Sequence[int]) -> lance.Index:
    return joined(table, spec, [partial_segment(table, spec, fragments, training_of(table, spec))])


# Each search queries every segment.
MOST_SEGMENTS = 4


def stage_coverage(
    table: Table, specs: Sequence[IndexSpec], build: Build | None = None
) -> tuple[Staged | None, tuple[str, ...]]:
    """Build the missing ones of these indexes and extend the others to all rows, as one transaction.

    Returns it with the names of the indexes that it builds or extends; None and no names when all are complete.
    """
    new: list[lance.Index] = []
    old: list[lance.Index] = []
    with lance_errors(f"indexing {table.path}"):
        segments = _segments(table)
        for spec in specs:
            built, replaced = _cover(table, spec, segments.get(spec.name, []), build)
            new += built
            old += replaced
    if not new:
        return None, ()
    staged = Staged(table, "index", Transaction(table.version, LanceOperation.CreateIndex(new, old)))
    return staged, tuple(dict.fromkeys(each.name for each in new))


def has_vectors(table: Table, column: str) -> bool:
    """Whether there are vectors to train a vector index with."""
    return table.count_rows(Not(IsNull(column))) > 0


def staged_upon(staged: Staged, table: Table) -> Staged:
    """Rebase an index that was built over a preview of this state of the table onto the state itself."""
    operation = staged.transaction.operation
    segments = [replace(each, dataset_version=table.version) for each in operation.new_indices]
    operation = LanceOperation.CreateIndex(segments, operation.removed_indices)
    return Staged(table, "index", Transaction(table.version, operation))


def _cover(
    table: Table, spec: IndexSpec, segments: list[lance.Index], build: Build | None
) -> tuple[list[lance.Index], list[lance.Index]]:
    """The segments to add, and those to remove."""
    there = set(table.fragment_ids())
    covered = {fragment_id for each in segments for fragment_id in each.fragment_ids}
    missing = sorted(there - covered)
    if not segments:
        return [build_segment(table, spec, sorted(there), build)], []
    if not missing:
        return [], []
    if spec.kind == "vector" and not _any_vector(table, spec.column, missing):
        return [], []
    living = [each for each in segments if there & set(each.fragment_ids)]
    if len(living) < MOST_SEGMENTS and _can_extend(table, spec, missing, living):
        added = build_segment(table, spec, missing, build)
        # Lance refuses an index with segments of different index versions, such as those of another release.
        if all(each.index_version == added.index_version for each in living):
            # A segment whose fragments are all deleted matches nothing any more.
            return [added], [each for each in segments if each not in living]
    return [build_segment(table, spec, sorted(there), build)], segments


def _can_extend(table: Table, spec: IndexSpec, missing: list[int], segments: Iterable[lance.Index]) -> bool:
    """Whether no row of the fragments was in the index before. B-trees store row addresses, not row ids."""
    if spec.kind == "btree":
        return True
    newest = max((each.dataset_version for each in segments), default=0)
    created_at = table.scan([CREATED_AT], fragments=missing)
    return all(age > newest for batch in created_at for age in batch.column(0).unique().to_numpy())


def _any_vector(table: Table, column: str, fragments: list[int]) -> bool:
    return any(batch.num_rows for batch in table.scan(["id"], Not(IsNull(column)), fragments=fragments))


def _segments(table: Table) -> dict[str, list[lance.Index]]:
    """The segments of every index, with the metadata that an operation needs to remove or extend them."""
    return {
        index.name: [
            lance.Index(
                each.uuid,
                index.name,
                list(index.fields),
                int(each.dataset_version_at_last_update),
                set(each.fragment_ids),
                each.index_version,
            )
            for each in index.segments
        ]
        for index in table.handle.describe_indices()
    }
