"""Converts rows of one schema to a later one, through every schema change in between, in order.

Columns are renamed, widened, filled or dropped; types are renamed or dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.catalog.arrow import default_array
from omnigraph.catalog.rules import type_of
from omnigraph.language.evolution import plan_evolution

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.language.evolution import MigrationPlan, Step, TableChange


@dataclass(frozen=True)
class _ColumnChange:
    """One schema change: what each old table became, and where its columns come from."""

    catalog: Catalog
    plan: MigrationPlan
    tables: dict[str, TableChange]
    dropped: frozenset[str]

    def new_key(self, table_key: str) -> str | None:
        """The new key of an old table; None when it was dropped. A table that the plan does not name stays as it is."""
        if table_key in self.dropped:
            return None
        change = self.tables.get(table_key)
        return table_key if change is None else change.table_key

    def new_column(self, table_key: str, column: str) -> str | None:
        """The new name of an old column of a table that stays; None when it was dropped."""
        change = self.tables.get(table_key)
        if change is None:
            return column
        return next((each.name for each in change.columns if each.from_column == column), None)

    def rows(self, table_key: str, rows: pa.Table) -> pa.Table:
        """Rows of an old table in the columns of the new one."""
        change = self.tables.get(table_key)
        if change is None:
            return rows
        kind = type_of(self.catalog, change.table_key)
        made: dict[str, Any] = {each.name: each for each in change.columns}
        kept = [name for name in rows.column_names if name in ("id", "src", "dst") and name not in made]
        columns: dict[str, Any] = {name: rows.column(name) for name in kept}
        for name, column in made.items():
            taken = column.from_column
            columns[name] = rows.column(taken) if taken else default_array(kind.properties[name], rows.num_rows)
        return pa.table(columns)


@dataclass(frozen=True)
class RowConversion:
    """The conversion from one schema to a later one; without changes the two are the same."""

    changes: tuple[_ColumnChange, ...] = ()

    @property
    def keeps_tables(self) -> bool:
        """Whether every existing table stays as it is; new tables may be added, and rules may change."""
        return all(each.action in ("keep", "create") for change in self.changes for each in change.plan.tables)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The migration steps, in order."""
        return tuple(step for change in self.changes for step in change.plan.steps)

    def new_key(self, table_key: str) -> str | None:
        """The present key of an old table; None when its type was dropped."""
        key: str | None = table_key
        for change in self.changes:
            key = None if key is None else change.new_key(key)
        return key

    def rows(self, table_key: str, rows: pa.Table, schema: pa.Schema) -> pa.Table:
        """Rows of an old table as rows of the present one, in the columns of `schema`."""
        key: str | None = table_key
        for change in self.changes:
            assert key is not None, "rows of a type that was dropped have no other shape"
            rows, key = change.rows(key, rows), change.new_key(key)
        columns = [rows.column(field.name).cast(field.type) for field in schema]
        return pa.table(columns, schema=pa.schema([field.with_nullable(nullable=True) for field in schema]))

    def left_out(self, table_key: str, columns: Sequence[str]) -> list[str]:
        """Those of an old table's columns that were dropped; empty for a dropped type."""
        return [each for each in columns if self.new_key(table_key) is not None and not self._stays(table_key, each)]

    def _stays(self, table_key: str, column: str) -> bool:
        key: str | None = table_key
        name: str | None = column
        for change in self.changes:
            assert key is not None, "the table stays"
            name = None if name is None else change.new_column(key, name)
            key = change.new_key(key)
        return name is not None or column in ("id", "src", "dst")


def reshaping(way: Sequence[Catalog]) -> RowConversion | None:
    """The conversion through successive schemas; None when no migration plan leads from one to the next."""
    made = []
    for old, new in pairwise(way):
        plan = plan_evolution(old, new)
        if not plan.supported:
            return None
        tables = {each.from_table_key: each for each in plan.tables if each.action in ("keep", "rewrite", "move")}
        dropped = frozenset(each.table_key for each in plan.tables if each.action == "drop")
        named = {key: each for key, each in tables.items() if key is not None}
        made.append(_ColumnChange(new, plan, named, dropped))
    return RowConversion(tuple(made))
