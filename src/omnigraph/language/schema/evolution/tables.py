"""What a plan does to each table, merged over all its steps: one rewrite per table, with no guessing left.

`id`, and on edges `src` and `dst`, always keep their values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from omnigraph.language.record import record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.language.schema.catalog import EdgeType, NodeType, Property, PropertyType
    from omnigraph.language.schema.evolution.matching import Matches
    from omnigraph.language.schema.evolution.steps import DataCheck, DropMode, Step


@record
class ColumnChange:
    """Where one column of the new table comes from: an accepted column, or else its default (None is null)."""

    name: str
    type: PropertyType
    from_column: str | None = None
    from_type: PropertyType | None = None
    fill: object | None = None

    @property
    def is_unchanged(self) -> bool:
        """The stored column stays as it is; enum values are not part of it."""
        if self.from_column != self.name or self.from_type is None:
            return False
        return (self.from_type.scalar, self.from_type.nullable) == (self.type.scalar, self.type.nullable)


@record
class TableChange:
    """`keep` rows as they are, `create`, `rewrite` columns, `move` to the table of a new name, or `drop`."""

    action: Literal["keep", "create", "rewrite", "move", "drop"]
    table_key: str
    from_table_key: str | None = None
    columns: tuple[ColumnChange, ...] = ()
    dropped_columns: tuple[str, ...] = ()
    checks: tuple[DataCheck, ...] = ()
    mode: DropMode = "soft"


def added_table(each: NodeType | EdgeType) -> TableChange:
    """A new empty table."""
    columns = tuple(ColumnChange(held.name, held.type, fill=held.default) for held in each.properties.values())
    return TableChange("create", each.table_key, columns=columns)


def dropped_table(each: NodeType | EdgeType, mode: DropMode) -> TableChange:
    """A table that leaves the graph."""
    return TableChange("drop", each.table_key, each.table_key, mode=mode)


def changed_table(
    old: NodeType | EdgeType,
    new: NodeType | EdgeType,
    matches: Matches[Property],
    steps: tuple[Step, ...],
    mode: DropMode,
) -> TableChange:
    """The change of a table that is in both schemas."""
    columns = tuple(sorted(_columns(matches), key=lambda each: each.name))
    dropped = tuple(each.name for each in matches.dropped)
    checks = tuple(step.check for step in steps if step.check is not None)
    rewrites = bool(dropped) or not all(each.is_unchanged for each in columns)
    action: Literal["keep", "rewrite", "move"] = "rewrite" if rewrites else "keep"
    if old.table_key != new.table_key:
        action = "move"
    return TableChange(action, new.table_key, old.table_key, columns, dropped, checks, mode)


def _columns(matches: Matches[Property]) -> Iterator[ColumnChange]:
    for old, new in matches.pairs:
        yield ColumnChange(new.name, new.type, old.name, old.type)
    for each in matches.added:
        yield ColumnChange(each.name, each.type, fill=each.default)
