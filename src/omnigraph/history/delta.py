"""Computes the rows that differ between two versions of a table or two snapshots, at a cost that follows the change.

The data files and deletion vectors of both versions show which fragments to read (`storage/tables/version_diff.py`).
Where a compaction has rewritten many rows, and one version descends from the other, Lance's row ids and row versions
show which rows only moved. Rows are compared by id and value: NaN equals NaN, and null equals null.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import put_schema
from omnigraph.kernels.arrays import ID, one_array, python_values
from omnigraph.kernels.report import Report, html_rows
from omnigraph.kernels.row_address import ROW_ADDRESS, ROW_ID, UPDATED_AT
from omnigraph.manifest.version_refs import branch_references
from omnigraph.storage.tables.row_rewrite import LOCATION_COLUMNS, NO_LOCATIONS, locations_in
from omnigraph.storage.tables.take_rows import read_blobs, rows_at
from omnigraph.storage.tables.version_diff import version_differences

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.manifest.snapshot import Snapshot, TableEntry
    from omnigraph.storage.tables.row_rewrite import RowLocations
    from omnigraph.storage.tables.table import Table, TableStore
    from omnigraph.storage.tables.version_diff import Addresses, VersionOnly

__all__ = [
    "MOVED_ROWS",
    "TableDelta",
    "descends",
    "differing_rows",
    "net",
    "table_delta",
    "with_blobs",
]


def same_rows(before: pa.Table, after: pa.Table) -> pa.Array[Any]:
    """The ids of rows that both tables have with equal values. Both are sorted by id and have the same columns."""
    old = before.filter(pc.is_in(before.column(ID), value_set=after.column(ID))).combine_chunks()
    new = after.filter(pc.is_in(after.column(ID), value_set=before.column(ID))).combine_chunks()
    if not old.num_rows:
        return pa.array([], pa.string())
    equal = np.ones(old.num_rows, dtype=bool)
    for name in after.column_names:
        if name != ID:
            equal &= equal_values(old.column(name), new.column(name))
    return new.column(ID).filter(pa.array(equal)).combine_chunks()


def equal_values(left: pa.ChunkedArray[Any], right: pa.ChunkedArray[Any]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Row by row, whether two columns of one type have the same value."""
    kind: Any = left.type
    if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
        pairs = zip(python_values(left), python_values(right), strict=True)
        return np.fromiter((same_value(one, other) for one, other in pairs), dtype=bool, count=len(left))
    alike: Any = pc.equal(left, right).fill_null(fill_value=False)
    if pa.types.is_floating(kind):
        nowhere: Any = pc.and_(pc.is_nan(left), pc.is_nan(right))
        alike = pc.or_(alike, nowhere.fill_null(fill_value=False))
    absent: Any = pc.and_(left.is_null(), right.is_null())
    found: np.ndarray[Any, np.dtype[np.bool_]] = pc.or_(alike, absent).to_numpy()
    return found


def same_value(one: object, other: object) -> bool:
    """Whether two Python values are the same; NaN is the same as NaN."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_value, one, other))
    return one == other or (one != one and other != other)  # true of NaN alone


_CHUNK = 5_000
# Up to this many rewritten rows, reading them costs less than finding out which ones only moved.
MOVED_ROWS = 5_000


@dataclass(frozen=True, repr=False)
class TableDelta:
    """The changes from one state of a table to another. Rows that were rewritten with the same values are not in it.

    `before` has the rows that are changed or removed, as they were; `after` those that are changed or added, as they
    are. Both are sorted by id. `left` has the locations of rows that the later state does not have at the same address,
    and `came` those of rows that the earlier state did not have there, with equal values or not; None if not computed.
    """

    table_key: str
    before: pa.Table
    after: pa.Table
    left: RowLocations | None = None
    came: RowLocations | None = None

    @cached_property
    def before_ids(self) -> pa.Array[Any]:
        """The ids of rows that are changed or removed."""
        return one_array(self.before.column(ID))

    @cached_property
    def after_ids(self) -> pa.Array[Any]:
        """The ids of rows that are changed or added."""
        return one_array(self.after.column(ID))

    @cached_property
    def inserted(self) -> pa.Table:
        """Rows that the earlier state does not have."""
        return self.after.filter(pc.invert(pc.is_in(self.after_ids, value_set=self.before_ids)))

    @cached_property
    def deleted(self) -> pa.Table:
        """Rows that the later state does not have, as they were."""
        return self.before.filter(pc.invert(pc.is_in(self.before_ids, value_set=self.after_ids)))

    @cached_property
    def updated(self) -> tuple[pa.Table, pa.Table]:
        """Rows that have other values now: as they were, and as they are, in the same order."""
        both = pc.is_in(self.before_ids, value_set=self.after_ids), pc.is_in(self.after_ids, value_set=self.before_ids)
        return self.before.filter(both[0]), self.after.filter(both[1])

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs."""
        return not (self.before.num_rows or self.after.num_rows)

    def __repr__(self) -> str:
        return f"<TableDelta {self.table_key}: {self.before.num_rows:,} rows before, {self.after.num_rows:,} after>"


def table_delta(tables: TableStore, base: TableEntry | None, side: TableEntry | None) -> TableDelta:
    """The changes from `base` to `side`; None stands for a table that does not exist."""
    if side is None:
        assert base is not None
        rows = _all(tables, base)
        return TableDelta(base.table_key, rows, rows.slice(0, 0))
    if base is None:
        rows = _all(tables, side)
        return TableDelta(side.table_key, rows.slice(0, 0), rows)
    if base.pin == side.pin:
        nothing = put_schema(tables.open(side.pin).schema).empty_table()
        return TableDelta(side.table_key, nothing, nothing, NO_LOCATIONS, NO_LOCATIONS)
    if base.path != side.path:
        return net(side.table_key, *differing_rows(tables, base, side))
    before, after, stayed = _differing(tables, base, side)
    delta = net(side.table_key, before.drop_columns(LOCATION_COLUMNS), after.drop_columns(LOCATION_COLUMNS))
    return replace(delta, left=locations_in(before), came=locations_in(after)) if stayed else delta


def differing_rows(tables: TableStore, base: TableEntry, side: TableEntry) -> tuple[pa.Table, pa.Table]:
    """A superset of the changed rows of either version, each in the columns of its own version."""
    if base.path != side.path:
        return _all(tables, base), _all(tables, side)
    before, after, _ = _differing(tables, base, side)
    return before.drop_columns(LOCATION_COLUMNS), after.drop_columns(LOCATION_COLUMNS)


def descends(tables: TableStore, entry: TableEntry, ancestor: TableEntry) -> bool:
    """Whether a version of a table descends from another one, through the branches that it was forked from."""
    if entry.path != ancestor.path:
        return False
    branch, version = entry.branch, entry.version
    references = branch_references(tables.open_newest(entry.path)) if branch != ancestor.branch else {}
    while branch != ancestor.branch:
        if branch is None or branch not in references:
            return False
        branch, version = references[branch]["parent_branch"], references[branch]["parent_version"]
    return ancestor.version <= version


def _differing(tables: TableStore, base: TableEntry, side: TableEntry) -> tuple[pa.Table, pa.Table, bool]:
    """The rows of either version that the other does not have at the same row address, with their locations.

    Also whether every other row has the same address in both, which is false when rows that only moved are left out.
    """
    old, new = tables.open(base.pin), tables.open(side.pin)
    old_only, new_only = version_differences(tables, old, new)
    moved = min(old_only.rows, new_only.rows) > MOVED_ROWS and descends(tables, side, base)
    before, after = (
        _not_only_moved(old, new, old_only, new_only) if moved else (_rows_of(old, old_only), _rows_of(new, new_only))
    )
    return with_blobs(old, before), with_blobs(new, after), not moved


def _not_only_moved(old: Table, new: Table, old_only: VersionOnly, new_only: VersionOnly) -> tuple[pa.Table, pa.Table]:
    """Leave out rows that a compaction only moved: same row id, and last updated at the same version."""
    there, here = _row_versions(old, old_only), _row_versions(new, new_only)
    shared, at, again = np.intersect1d(there[0], here[0], assume_unique=True, return_indices=True)
    same = shared[there[1][at] == here[1][again]]
    left = np.concatenate([old_only.addresses, there[2][~np.isin(there[0], same)]])
    came = np.concatenate([new_only.addresses, here[2][~np.isin(here[0], same)]])
    return rows_at(old, _columns(old), left), rows_at(new, _columns(new), came)


def _row_versions(table: Table, version_only: VersionOnly) -> tuple[Addresses, Addresses, Addresses]:
    """Row ids, versions of the last update, and row addresses of the rows in the fragments of one version."""
    rows = table.read([ROW_ID, UPDATED_AT, ROW_ADDRESS], fragments=version_only.fragments)
    return rows.column(ROW_ID).to_numpy(), rows.column(UPDATED_AT).to_numpy(), rows.column(ROW_ADDRESS).to_numpy()


def _rows_of(table: Table, version_only: VersionOnly) -> pa.Table:
    if not version_only.fragments:
        return rows_at(table, _columns(table), version_only.addresses)
    rows = table.read(_columns(table), fragments=version_only.fragments)
    return (
        pa.concat_tables([rows_at(table, _columns(table), version_only.addresses), rows])
        if len(version_only.addresses)
        else rows
    )


def net(table_key: str, before: pa.Table, after: pa.Table) -> TableDelta:
    """A delta without the rows that are equal on both sides, in the columns of the later version."""
    before, after = _aligned(before, after.schema).sort_by(ID), after.sort_by(ID)
    same = same_rows(before, after)
    return TableDelta(
        table_key,
        before.filter(pc.invert(pc.is_in(before.column(ID), value_set=same))),
        after.filter(pc.invert(pc.is_in(after.column(ID), value_set=same))),
    )


def _aligned(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows of an earlier schema in the columns of a later one; missing columns are null."""
    if rows.schema.equals(schema):
        return rows
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.chunked_array([pa.nulls(rows.num_rows, field.type)])
        for field in schema
    ]
    return pa.table(columns, schema=pa.schema([field.with_nullable(nullable=True) for field in schema]))


def _all(tables: TableStore, entry: TableEntry) -> pa.Table:
    table = tables.open(entry.pin)
    return with_blobs(table, table.read(table.schema.names)).sort_by(ID)


def with_blobs(table: Table, rows: pa.Table) -> pa.Table:
    """Read the blobs of the rows. A scan returns only descriptors of blobs, not their bytes."""
    wanted = put_schema(table.schema)
    for at, column in enumerate(wanted):
        if rows.schema.field(column.name).type != column.type:
            ids: list[Any] = rows.column(ID).to_pylist()
            blobs = {}
            for start in range(0, len(ids), _CHUNK):
                blobs.update(read_blobs(table, column.name, ids[start : start + _CHUNK]))
            rows = rows.set_column(at, column, pa.array([blobs.get(each) for each in ids], column.type))
    return rows


def _columns(table: Table) -> list[str]:
    return [*table.schema.names, *LOCATION_COLUMNS]


@dataclass(frozen=True, repr=False)
class DiffSummary(Report):
    """How many rows of a table were added, changed and removed."""

    table_key: str
    inserted: int
    updated: int
    deleted: int


@dataclass(frozen=True, repr=False)
class GraphDiff(Report):
    """The differences between `before` and `after`. Rows that were rewritten with the same values are not in it."""

    before: Snapshot
    after: Snapshot
    _tables: TableStore = field(repr=False)

    def __iter__(self) -> Iterator[TableDelta]:
        """The tables that differ, in name order; tables at the same version are not opened."""
        for key in sorted(self.before.tables.keys() | self.after.tables.keys()):
            base, side = self.before.tables.get(key), self.after.tables.get(key)
            if base is not None and side is not None and base.pin == side.pin:
                continue
            delta = table_delta(self._tables, base, side)
            if not delta.is_empty:
                yield delta

    def summary(self) -> list[DiffSummary]:
        """The number of changed rows, by table."""
        return [
            DiffSummary(each.table_key, each.inserted.num_rows, each.updated[1].num_rows, each.deleted.num_rows)
            for each in self
        ]

    def to_dict(self) -> dict[str, Any]:
        """Both commits, and how many rows of each table were added, changed and removed; reads the changed rows."""
        commits = {"before": self.before.commit_id, "after": self.after.commit_id}
        return {**commits, "tables": [each.to_dict() for each in self.summary()]}

    def _repr_html_(self) -> str:
        rows: list[tuple[object, ...]] = [(e.table_key, e.inserted, e.updated, e.deleted) for e in self.summary()]
        return html_rows(("table", "inserted", "updated", "deleted"), rows)

    def _summary(self) -> str:
        return f"from {self.before.commit_id} to {self.after.commit_id}"
