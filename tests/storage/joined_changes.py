"""Changes by Lance's own join: a second way to the same rows, for tests and benchmarks to make versions with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.kernels.arrays import ID
from omnigraph.storage.filters.model import one_of, render
from omnigraph.storage.lance.errors import lance_errors
from omnigraph.storage.tables.staging import Staged, refuse_deleted_ids, refuse_repeated_ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    import lance

    from omnigraph.storage.tables.staging import Change
    from omnigraph.storage.tables.table import Table


def stage_upsert(table: Table, rows: pa.Table) -> Staged:
    """Replace rows whose id is there, add the others. Ids must not repeat within `rows`."""
    refuse_repeated_ids(table, rows)
    builder = table.handle.merge_insert(ID).when_matched_update_all().when_not_matched_insert_all()
    return _merge(table, "upsert", builder, rows)


def stage_insert(table: Table, rows: pa.Table) -> Staged:
    """Add rows whose ids must all be new; one that is there already is an `InvalidInput`, and nothing is staged."""
    refuse_repeated_ids(table, rows)
    builder = table.handle.merge_insert(ID).when_matched_fail().when_not_matched_insert_all()
    return _merge(table, "insert", builder, rows)


def stage_delete_ids(table: Table, ids: Sequence[str]) -> Staged | None:
    """Remove rows by id; None when none of them is there. One join, however many ids there are."""
    if not ids:
        return None
    keys = pa.table({ID: pa.array(sorted(set(ids)), pa.string())})
    staged = _merge(table, "delete", table.handle.merge_insert(ID).when_matched_delete(), keys)
    return staged if staged.deleted else None


def stage_change(table: Table, upserts: pa.Table, deletes: Sequence[str]) -> Staged:
    """Upsert some rows and remove others as one transaction. A row cannot be in both."""
    refuse_repeated_ids(table, upserts)
    refuse_deleted_ids(table, upserts, deletes)
    builder = table.handle.merge_insert(ID).when_matched_update_all().when_not_matched_insert_all()
    if deletes:
        builder = builder.when_not_matched_by_source_delete(render(one_of(ID, deletes)))
    return _merge(table, "change", builder, upserts)


def _merge(table: Table, change: Change, builder: lance.dataset.MergeInsertBuilder, rows: pa.Table) -> Staged:
    with lance_errors(f"staging a change to {table.path}"):
        transaction, stats = builder.execute_uncommitted(rows)
    return Staged(
        table,
        change,
        transaction,
        inserted=int(stats["num_inserted_rows"]),
        updated=int(stats["num_updated_rows"]),
        deleted=int(stats["num_deleted_rows"]),
    )
