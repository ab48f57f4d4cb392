"""Determines the schema that a merge ends in. Main changes its schema; branches follow it, stay behind, or merge it.

So every snapshot has a position in one lineage: the schemas that main has had, in order. Of two snapshots the later
schema wins, and rows of the other are converted to it, through every schema change in between, in order: columns are
renamed, widened, filled or dropped; types are renamed or dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.catalog.arrow import default_array
from omnigraph.catalog.rules import type_of
from omnigraph.errors import CommitRejected
from omnigraph.language.evolution import plan_evolution
from omnigraph.manifest.layout import MAIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.language.evolution import MigrationPlan, Step, TableChange
    from omnigraph.language.stored.files import Accepted
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.transaction.schemas import Schemas


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
        changes: dict[str, Any] = {each.name: each for each in change.columns}
        unchanged = [name for name in rows.column_names if name in ("id", "src", "dst") and name not in changes]
        columns: dict[str, Any] = {name: rows.column(name) for name in unchanged}
        for name, column in changes.items():
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
            assert key is not None, "rows of a type that was dropped cannot be converted"
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


def conversion_through(catalogs: Sequence[Catalog]) -> RowConversion | None:
    """The conversion through successive schemas; None when no migration plan leads from one to the next."""
    changes = []
    for old, new in pairwise(catalogs):
        plan = plan_evolution(old, new)
        if not plan.supported:
            return None
        tables = {each.from_table_key: each for each in plan.tables if each.action in ("keep", "rewrite", "move")}
        dropped = frozenset(each.table_key for each in plan.tables if each.action == "drop")
        named = {key: each for key, each in tables.items() if key is not None}
        changes.append(_ColumnChange(new, plan, named, dropped))
    return RowConversion(tuple(changes))


@dataclass(frozen=True)
class _SchemaPosition:
    """A schema of main, when it began, and the commit that introduced it; the first one came with the graph."""

    hash: str
    since: int = 0
    commit_id: str | None = None


@dataclass(frozen=True)
class SchemaLineage:
    """The schemas that main has had, oldest first."""

    schemas: Schemas
    positions: tuple[_SchemaPosition, ...]

    def of(self, snapshot: Snapshot, changes: Sequence[GraphCommit]) -> int | None:
        """The position of a snapshot of a branch with these schema changes; None when its schema was never main's.

        A schema that main returned to occurs twice: the branch has the last occurrence before it took the schema.
        """
        taken = [each for each in changes if each.schema and each.schema.after == snapshot.schema]
        if not taken:
            return 0
        named = [at for at, each in enumerate(self.positions) if each.hash == snapshot.schema]
        exact = [at for at in named if self.positions[at].commit_id == taken[-1].id]
        earlier = [at for at in named if self.positions[at].since <= taken[-1].created_us]
        return max(exact or earlier or named, default=None)

    def until(self, schema_hash: str, last: int) -> int | None:
        """The last position of a schema, up to position `last`."""
        return max((at for at, each in enumerate(self.positions[: last + 1]) if each.hash == schema_hash), default=None)

    def after(self, position: int, schema_hash: str) -> int | None:
        """The first position of a schema after a position."""
        return next(
            (at for at in range(position + 1, len(self.positions)) if self.positions[at].hash == schema_hash), None
        )

    def conversion(self, start: int, end: int) -> RowConversion | None:
        """The row conversion from one position to a later one; None when no migration plan leads there."""
        return conversion_through([self.schemas.of(each.hash).catalog for each in self.positions[start : end + 1]])


def schema_lineage(manifest: GraphManifest, schemas: Schemas) -> SchemaLineage:
    """The schema lineage, from main's history."""
    changes = manifest.branch(MAIN).schema_commits
    positions: list[_SchemaPosition] = [] if changes else [_SchemaPosition(schemas.current().hash)]
    for each in changes:
        assert each.schema is not None
        if not positions or positions[-1].hash != each.schema.before:
            # The first schema, or one that another release introduced without naming it.
            positions.append(_SchemaPosition(each.schema.before, since=positions[-1].since if positions else 0))
        positions.append(_SchemaPosition(each.schema.after, each.created_us, each.id))
    return SchemaLineage(schemas, tuple(positions))


@dataclass(frozen=True)
class MergeSchema:
    """The schema of the merged state, and the positions of all snapshots before it in the lineage."""

    lineage: SchemaLineage
    accepted: Accepted
    end: int
    ours: int
    theirs: int
    bases: dict[str, int]

    @property
    def target_is_behind(self) -> bool:
        """Whether the target takes the schema of the source."""
        return self.ours < self.end

    @property
    def behind(self) -> int:
        """The position of the side with the earlier schema."""
        return min(self.ours, self.theirs)

    @property
    def steps_of_target(self) -> tuple[Step, ...]:
        """The migration steps of the target's schema."""
        return self.to_end(self.ours).steps

    def to_end(self, position: int) -> RowConversion:
        """The row conversion from a position to the schema of the merged state."""
        return self._conversion(position, self.end)

    def to_behind(self, position: int) -> RowConversion:
        """The row conversion from a common state to the schema of the side with the earlier schema."""
        return self._conversion(position, self.behind)

    def base(self, snapshot: Snapshot) -> int:
        """The position of a common state."""
        return self.bases[self.lineage.schemas.of(snapshot.schema).hash]

    def _conversion(self, start: int, end: int) -> RowConversion:
        found = self.lineage.conversion(start, end)
        assert found is not None, "every conversion was planned when the merge began"
        return found


def merge_schema(
    manifest: GraphManifest, schemas: Schemas, theirs: Snapshot, ours: Snapshot, common: Sequence[Snapshot]
) -> tuple[Catalog, MergeSchema | None]:
    """The catalog of the merged state; and, when rows of a snapshot have to be converted to it, how."""
    here, there = (schemas.of(each.schema) for each in (ours, theirs))
    hashes = {schemas.of(each.schema).hash for each in common}
    if {here.hash, *hashes} == {there.hash}:
        return here.catalog, None
    lineage = schema_lineage(manifest, schemas)
    our_position, their_position = (
        lineage.of(each, manifest.branch(each.branch).schema_commits) for each in (ours, theirs)
    )
    if our_position is None or their_position is None:
        raise _refusal(theirs.branch, ours.branch)
    positions = {each: lineage.until(each, min(our_position, their_position)) for each in hashes}
    bases = {name: position for name, position in positions.items() if position is not None}
    end = max(our_position, their_position)
    if len(bases) < len(positions) or any(
        lineage.conversion(each, end) is None for each in (our_position, their_position, *bases.values())
    ):
        raise _refusal(theirs.branch, ours.branch)
    found = MergeSchema(lineage, here if our_position == end else there, end, our_position, their_position, bases)
    if here.hash == there.hash and all(found.to_end(each).keeps_tables for each in bases.values()):
        return here.catalog, None
    return found.accepted.catalog, found


def _refusal(source: str, target: str) -> CommitRejected:
    return CommitRejected(
        f"branch {source!r} cannot be merged into {target!r}: the schemas of both have changed since they diverged, "
        f"and neither descends from the other. Export the rows you need from {source!r}, and load them into {target!r}."
    )
