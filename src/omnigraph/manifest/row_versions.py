"""Determines the manifest version that created each row, including rows whose fragment no longer stores it.

Lance can store it per row, at eleven bytes a publish in every version file, for ever. But each publish writes its rows
in one fragment, ending with its commit row, and the commit row holds the version that the publish became. So a fragment
made of whole publishes needs no row versions: a row was created by the next commit row after it. Compaction strips the
row versions of such fragments (`manifest/compaction.py`), and this module derives them from the order of rows.

Lance up to 6.0.1, with which releases up to 0.6.2 wrote, reports 1 as the creation version of every row that a keyed
write inserted; only the last-update version is right there. Those releases insert rows once and never update them.
"""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.kernels.row_address import CREATED_AT, ROW_ADDRESS, UPDATED_AT, fragment_of
from omnigraph.manifest.rows import KEY, SCHEMA
from omnigraph.storage.lance.metadata import has_row_versions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lance import FragmentMetadata

    from omnigraph.storage.tables.table import Table

COLUMNS = (
    KEY,
    "object_type",
    "location",
    "metadata",
    "table_key",
    "table_version",
    "table_branch",
    "row_count",
    CREATED_AT,
    ROW_ADDRESS,
)
_SCANNED = (*COLUMNS, UPDATED_AT)
_EVERYTHING = tuple(dict.fromkeys([*SCHEMA.names, *_SCANNED]))
_TYPE, _VERSION, _CREATED = (COLUMNS.index(each) for each in ("object_type", "table_version", CREATED_AT))

VersionedRow = tuple[Any, ...]


def read_rows(table: Table, fragments: Iterable[int] | None = None) -> Iterator[VersionedRow]:
    """The rows of a manifest, or of some of its fragments, in write order, with their true creation versions."""
    for fragment_id, fragment in read_fragments(table, fragments):
        yield from versioned_rows(table, fragment_id, fragment)


def read_fragments(table: Table, fragments: Iterable[int] | None = None) -> Iterator[tuple[int, pa.Table]]:
    """Scan fragments of a manifest: per fragment id, its rows with all columns, row versions and row addresses."""
    chosen = list(table.fragment_ids() if fragments is None else fragments)
    batches = table.scan(_EVERYTHING, fragments=chosen) if chosen else ()
    slices = (fragment_slice for batch in batches for fragment_slice in _by_fragment(batch))
    for fragment_id, group in groupby(slices, key=lambda fragment_slice: fragment_slice[0]):
        yield fragment_id, pa.Table.from_batches([batch for _, batch in group])


def _by_fragment(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    fragment_ids = fragment_of(batch.column(ROW_ADDRESS).to_numpy())
    starts = [0, *(np.flatnonzero(np.diff(fragment_ids)) + 1).tolist(), len(fragment_ids)]
    for start, end in pairwise(starts):
        if start < end:
            yield int(fragment_ids[start]), batch.slice(start, end - start)


def versioned_rows(table: Table, fragment_id: int, fragment: pa.Table) -> list[VersionedRow]:
    """The rows of a fragment with their true creation versions."""
    rows = list(tuples(fragment.to_batches()))
    return rows if _is_dated(table, fragment_id) else _dated_by_order(rows)


def _is_dated(table: Table, fragment_id: int) -> bool:
    return has_row_versions(table.fragment(fragment_id))


def whole_publishes(table: Table, fragments: Iterable[FragmentMetadata]) -> dict[int, pa.Table]:
    """The rows of those fragments whose row versions can be dropped because their order implies them; one scan."""
    metadata = {each.id: each for each in fragments}
    return {
        fragment_id: fragment.select(SCHEMA.names).cast(SCHEMA)
        for fragment_id, fragment in read_fragments(table, sorted(metadata))
        if not has_row_versions(metadata[fragment_id]) or holds_whole_publishes(list(tuples(fragment.to_batches())))
    }


def holds_whole_publishes(rows: list[VersionedRow]) -> bool:
    """Whether every row's creation version is that of the next commit row at or after it."""
    if rows[-1][_TYPE] != "graph_commit":
        return False
    return all(row[_CREATED] == dated[_CREATED] for row, dated in zip(rows, _dated_by_order(rows), strict=True))


def tuples(batches: Iterable[pa.RecordBatch]) -> Iterator[VersionedRow]:
    """Batches as tuples in the order of `COLUMNS`, with the true creation version."""
    for batch in batches:
        columns = {name: batch.column(name).to_pylist() for name in _SCANNED}
        pairs = zip(columns[CREATED_AT], columns[UPDATED_AT], strict=True)
        columns[CREATED_AT] = [updated if created == 1 else created for created, updated in pairs]
        yield from zip(*(columns[name] for name in COLUMNS), strict=True)


def just_written(rows: pa.Table, *, version: int) -> Iterator[VersionedRow]:
    """Rows that this process has just published, as they would be read back, but without row addresses."""
    versions = pa.array([version] * rows.num_rows, pa.uint64())
    addresses = pa.nulls(rows.num_rows, pa.uint64())
    written = rows.append_column(CREATED_AT, versions).append_column(UPDATED_AT, versions)
    return tuples(written.append_column(ROW_ADDRESS, addresses).to_batches())


def _dated_by_order(rows: list[VersionedRow]) -> list[VersionedRow]:
    """Each row with the version of the first commit row at or after it."""
    dated: list[VersionedRow] = []
    version: int | None = None
    for row in reversed(rows):
        if row[_TYPE] == "graph_commit":
            version = row[_VERSION]
        dated.append(row if version is None else (*row[:_CREATED], version, *row[_CREATED + 1 :]))
    return dated[::-1]
