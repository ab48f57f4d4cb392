"""Merging a branch that did not take part in a change of schema: its rows are read in the schema of the other one.

The schema of the side that changed it wins. Rows of the common state and of the branch that stayed behind are carried
through every change that the other has seen: columns are renamed, widened, filled or left out, types are renamed.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.errors import CommitRejected
from omnigraph.language.schema.arrow import default_array
from omnigraph.language.schema.evolution import plan_evolution
from omnigraph.write.constraints.rules import type_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.language.schema.catalog import Catalog
    from omnigraph.language.schema.evolution import TableChange
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.schema_contract import Schemas
    from omnigraph.write.schema.apply import Accepted


@dataclass(frozen=True)
class _Step:
    """One change of schema: where each table of the old one went, and what its columns come from."""

    catalog: Catalog
    changes: dict[str, TableChange]
    dropped: frozenset[str]

    def new_key(self, table_key: str) -> str | None:
        """What an old table is called afterwards; None when it is gone. One that is not named stays as it is."""
        if table_key in self.dropped:
            return None
        change = self.changes.get(table_key)
        return table_key if change is None else change.table_key

    def rows(self, table_key: str, rows: pa.Table) -> pa.Table:
        """Rows of an old table in the columns of the new one."""
        change = self.changes.get(table_key)
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
class Reshaping:
    """The way from the schema of the common state to the one that the target has now."""

    steps: tuple[_Step, ...]

    def new_key(self, table_key: str) -> str | None:
        """What an old table is called now; None when its type was dropped."""
        key: str | None = table_key
        for step in self.steps:
            key = None if key is None else step.new_key(key)
        return key

    def rows(self, table_key: str, rows: pa.Table, schema: pa.Schema) -> pa.Table:
        """Rows of an old table as rows of what it has become, in the columns of that."""
        key: str | None = table_key
        for step in self.steps:
            assert key is not None, "rows of a type that was dropped have no other shape"
            rows, key = step.rows(key, rows), step.new_key(key)
        columns = [rows.column(field.name).cast(field.type) for field in schema]
        return pa.table(columns, schema=pa.schema([field.with_nullable(nullable=True) for field in schema]))


def merged_schema(
    manifest: GraphManifest, schemas: Schemas, source: str, target: str
) -> tuple[Catalog, Reshaping | None]:
    """The catalog that the merged whole is in, and how rows of the source come into it; None when both have it."""
    ours, theirs = (schemas.of(manifest.snapshot(each).schema) for each in (target, source))
    if ours.hash == theirs.hash:
        return ours.catalog, None
    bases = [schemas.of(manifest.snapshot_of(each.id).schema) for each in manifest.merge_bases(source, target).tips]
    if len(bases) == 1 and bases[0].hash == theirs.hash:
        steps = _steps(_way(manifest, schemas, target, theirs, ours))
        if steps is not None:
            return ours.catalog, Reshaping(steps)
    raise _refusal(source, target, behind=len(bases) == 1 and bases[0].hash == ours.hash)


def _way(manifest: GraphManifest, schemas: Schemas, branch: str, first: Accepted, last: Accepted) -> list[Catalog]:
    """The schemas that a branch had one after the other, from one to another."""
    changes = [each.schema for each in manifest.line(branch).state.schema_commits if each.schema is not None]
    way, now = [first.catalog], first.hash
    for change in changes:
        if change.before == now and now != last.hash:
            way.append(schemas.of(change.after).catalog)
            now = change.after
    return way if now == last.hash else [first.catalog, last.catalog]


def _steps(way: Sequence[Catalog]) -> tuple[_Step, ...] | None:
    """None when one of the schemas cannot have come of the one before it by a plan."""
    made = []
    for old, new in pairwise(way):
        plan = plan_evolution(old, new, allow_data_loss=True)
        if not plan.supported:
            return None
        changes = {each.from_table_key: each for each in plan.tables if each.action in ("keep", "rewrite", "move")}
        dropped = frozenset(each.table_key for each in plan.tables if each.action == "drop")
        made.append(_Step(new, {key: each for key, each in changes.items() if key is not None}, dropped))
    return tuple(made)


def _refusal(source: str, target: str, *, behind: bool) -> CommitRejected:
    if behind:
        return CommitRejected(
            f"branch {source!r} cannot be merged into {target!r}: its schema has changed since they parted, and that "
            f"of {target!r} has not. Make a new branch of {source!r} and merge {target!r} into that: its rows are then "
            "read in the new schema."
        )
    return CommitRejected(
        f"branch {source!r} cannot be merged into {target!r}: the schemas of both have changed since they parted. "
        f"Export what is wanted of {source!r}, and load it into {target!r}."
    )
