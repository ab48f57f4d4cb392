"""One staged change of each kind, for tables with the ids a and b."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.storage.filters.model import one_of
from omnigraph.storage.tables.compaction import stage_compaction
from omnigraph.storage.tables.indexes import IndexSpec, stage_indexes
from omnigraph.storage.tables.staging import Staged, stage_append, stage_delete, stage_overwrite, stage_restore
from storage.every_type import small
from storage.joined_changes import stage_upsert

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.storage.tables.table import Table


def _delete(table: Table) -> Staged:
    staged = stage_delete(table, one_of("id", ["a"]))
    assert staged is not None
    return staged


def _compact(table: Table) -> Staged:
    staged = stage_compaction(table, rows_per_file=1000)
    assert staged is not None
    return staged


WRITERS: dict[str, Callable[[Table], Staged]] = {
    "append": lambda table: stage_append(table, small("new")),
    "upsert": lambda table: stage_upsert(table, small("a", n=1)),
    "delete": _delete,
    "overwrite": lambda table: stage_overwrite(table, small("z")),
    "restore": lambda table: stage_restore(table, 1),
    "index": lambda table: stage_indexes(table, [IndexSpec("n", "btree", "n_idx")]),
    "compact": _compact,
}
