"""Plans the migration from an accepted schema to a desired one.

The steps are also merged into one rewrite per table, which leaves nothing to be guessed at execution. `id`, and on
edges `src` and `dst`, always keep their values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeVar

from omnigraph.catalog.canonical import range_text
from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.errors import SchemaChangeRefused
from omnigraph.kernels.report import Report
from omnigraph.language.evolution.constraints import cardinality_steps, rule_steps
from omnigraph.language.evolution.matching import SHORTHAND, DeclarationMatches, annotation_steps, match, rename_hint
from omnigraph.language.evolution.properties import property_steps
from omnigraph.language.evolution.steps import DropMode, Step, unsupported
from omnigraph.language.stored.ir import annotation_json, catalog_to_ir, ir_hash
from omnigraph.lazy import record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from omnigraph.catalog.canonical import Json
    from omnigraph.catalog.catalog import Catalog, Property, PropertyType
    from omnigraph.language.evolution.steps import DataCheck


@record
class ColumnChange:
    """The origin of one column of the new table: an accepted column, or else its default (None is null)."""

    name: str
    type: PropertyType
    from_column: str | None = None
    from_type: PropertyType | None = None
    fill: object | None = None

    @property
    def is_unchanged(self) -> bool:
        """Whether the stored column does not change. Enum values are not part of the stored type."""
        if self.from_column != self.name or self.from_type is None:
            return False
        return (self.from_type.scalar, self.from_type.nullable) == (self.type.scalar, self.type.nullable)


@record
class TableChange:
    """The change of one table: `keep` it, `create`, `rewrite` columns, `move` to the table of a new name, or `drop`."""

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
    """A table that is removed from the graph."""
    return TableChange("drop", each.table_key, each.table_key, mode=mode)


def changed_table(
    old: NodeType | EdgeType,
    new: NodeType | EdgeType,
    matches: DeclarationMatches[Property],
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


def _columns(matches: DeclarationMatches[Property]) -> Iterator[ColumnChange]:
    for old, new in matches.pairs:
        yield ColumnChange(new.name, new.type, old.name, old.type)
    for each in matches.added:
        yield ColumnChange(each.name, each.type, fill=each.default)


TableKind = Literal["node", "edge"]
Table = TypeVar("Table", NodeType, EdgeType)


@record
class MigrationPlan(Report):
    """The steps in order, and what they come to for each table that they touch; no tables when a step is refused."""

    steps: tuple[Step, ...]
    tables: tuple[TableChange, ...]

    @property
    def supported(self) -> bool:
        """Whether every step can be applied."""
        return not any(step.kind == "unsupported_change" for step in self.steps)

    @property
    def checks(self) -> tuple[DataCheck, ...]:
        """What the data must satisfy before anything is applied."""
        return tuple(step.check for step in self.steps if step.check is not None)

    def to_dict(self) -> dict[str, Json]:
        """`{supported, steps: [{kind, …}]}`."""
        return {"supported": self.supported, "steps": [step.to_dict() for step in self.steps]}

    def _summary(self) -> str:
        return f"{len(self.steps)} steps for {len(self.tables)} tables" + ("" if self.supported else ", unsupported")

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps)) or "no schema changes"

    def raise_if_unsupported(self) -> None:
        """Raise `SchemaChangeRefused` with every refusal and its way out."""
        refused = [step for step in self.steps if step.kind == "unsupported_change"]
        if refused:
            lines = [f"{step}\n  way out: {step.details['way_out']}" for step in refused]
            entity = str(refused[0].details["entity"])
            raise SchemaChangeRefused("\n".join(lines), change_code=refused[0].code, entity=entity)


def plan_evolution(accepted: Catalog, desired: Catalog, allow_data_loss: bool = False) -> MigrationPlan:
    """Plan the migration from the accepted to the desired schema. Drops are soft unless data loss is allowed."""
    planner = _Planner("hard" if allow_data_loss else "soft", [], [])
    planner.interfaces(accepted, desired)
    nodes = match(accepted.nodes, desired.nodes, "node:")
    planner.tables_of("node", nodes, desired, {})
    planner.tables_of("edge", match(accepted.edges, desired.edges, "edge:"), desired, nodes.renames)
    if not planner.steps and ir_hash(catalog_to_ir(accepted)) != ir_hash(catalog_to_ir(desired)):
        planner.steps.append(unsupported("schema", "OG-BC-105", "the schemas differ in a way that no step covers"))
    plan = MigrationPlan(tuple(planner.steps), tuple(planner.tables))
    return plan if plan.supported else replace(plan, tables=())


@dataclass
class _Planner:
    """Collects steps and table changes: interfaces, then nodes, then edges."""

    mode: DropMode
    steps: list[Step]
    tables: list[TableChange]

    def interfaces(self, accepted: Catalog, desired: Catalog) -> None:
        """Plan interfaces: they can be added and changed, have no tables, and cannot be renamed or removed."""
        for name, new in desired.interfaces.items():
            old = accepted.interfaces.get(name)
            if old is None:
                self.steps.append(Step("add_type", {"type_kind": "interface", "name": name}))
            else:
                matches = match(old.properties, new.properties, f"interface:{name}.")
                self.steps += property_steps("interface", name, matches, self.mode)
        for name in accepted.interfaces:
            if name not in desired.interfaces:
                self.steps.append(unsupported(f"interface:{name}", "OG-BC-103", "an interface cannot be removed"))

    def tables_of(
        self, kind: TableKind, matches: DeclarationMatches[Table], desired: Catalog, node_renames: Mapping[str, str]
    ) -> None:
        """Plan the tables of one kind: faults, then changes and additions by desired name, then drops."""
        self.steps += matches.faults
        previous = {new.name: old for old, new in matches.pairs}
        for new in sorted([*(new for _, new in matches.pairs), *matches.added], key=lambda each: each.name):
            if new.name in previous:
                self._changed(kind, previous[new.name], new, node_renames)
            else:
                self._added(kind, new, desired)
        for dropped in matches.dropped:
            details: dict[str, Json] = {"type_kind": kind, "name": dropped.name, "mode": self.mode}
            self.steps.append(Step("drop_type", details, "drop_table", code="OG-DS-102"))
            self.tables.append(dropped_table(dropped, self.mode))

    def _added(self, kind: TableKind, new: NodeType | EdgeType, desired: Catalog) -> None:
        self.steps.append(Step("add_type", {"type_kind": kind, "name": new.name}, "create_table"))
        self.steps += _stray_hints(kind, new, desired)
        self.tables.append(added_table(new))

    def _changed(
        self, kind: TableKind, old: NodeType | EdgeType, new: NodeType | EdgeType, node_renames: Mapping[str, str]
    ) -> None:
        if _is_same(old, new):
            return
        matches = match(old.properties, new.properties, f"{kind}:{new.name}.")
        steps = (
            *_type_steps(kind, old, new, node_renames),
            *property_steps(kind, new.name, matches, self.mode),
            *rule_steps(kind, old, new, matches.renames),
        )
        if not steps and _differs_in_case(_with_new_ends(old, node_renames), new):
            annotations = [annotation_json(each) for each in new.annotations]
            steps = (Step("update_type_metadata", {**_named(kind, new.name), "annotations": annotations}),)
        if steps:
            self.steps += steps
            self.tables.append(changed_table(old, new, matches, steps, self.mode))


def _type_steps(
    kind: TableKind, old: NodeType | EdgeType, new: NodeType | EdgeType, node_renames: Mapping[str, str]
) -> Iterator[Step]:
    """Steps about the type itself: its name, what it connects or implements, and its annotations."""
    entity = f"{kind}:{new.name}"
    if old.name != new.name:
        details: dict[str, Json] = {"type_kind": kind, "from": old.name, "to": new.name}
        yield Step("rename_type", details, "move_table", code="OG-BC-101")
    if isinstance(old, NodeType) and isinstance(new, NodeType) and old.implements != new.implements:
        yield unsupported(entity, "OG-BC-103", "the interfaces that it implements change")
    if isinstance(old, EdgeType) and isinstance(new, EdgeType):
        endpoints = (node_renames.get(old.source, old.source), node_renames.get(old.target, old.target))
        if endpoints != (new.source, new.target):
            was, now = f"{endpoints[0]} -> {endpoints[1]}", f"{new.source} -> {new.target}"
            yield unsupported(entity, "OG-ED-101", f"its ends change from {was} to {now}")
        yield from cardinality_steps(old, new)
    yield from annotation_steps("update_type_metadata", entity, old, new, _named(kind, new.name))


def _named(kind: TableKind, name: str) -> dict[str, Json]:
    return {"type_kind": kind, "name": name}


def _stray_hints(kind: TableKind, new: NodeType | EdgeType, desired: Catalog) -> Iterator[Step]:
    """Refuse rename hints on properties of a new type, except hints that come from an interface."""
    implements = new.implements if isinstance(new, NodeType) else ()
    brought = {name for interface in implements for name in desired.interfaces[interface].properties}
    for each in new.properties.values():
        hint = rename_hint(each)
        if hint is not None and each.name not in brought:
            reason = f"@rename_from names `{hint}`, and {new.name} is new"
            yield unsupported(f"{kind}:{new.name}.{each.name}", "OG-NM-101", reason)


def _is_same(old: NodeType | EdgeType, new: NodeType | EdgeType) -> bool:
    """Strict equality: 1 and 1.0 are equal in Python, but as bounds they are stored differently."""
    return old == new and [*map(range_text, old.rules.ranges)] == [*map(range_text, new.rules.ranges)]


def _with_new_ends(old: NodeType | EdgeType, node_renames: Mapping[str, str]) -> NodeType | EdgeType:
    """The accepted edge with renamed endpoint types, because a renamed node type does not change the edge."""
    if isinstance(old, NodeType):
        return old
    source, target = (node_renames.get(each, each) for each in (old.source, old.target))
    return replace(old, source=source, target=target)


def _differs_in_case(old: NodeType | EdgeType, new: NodeType | EdgeType) -> bool:
    """Whether constraints differ only in spelling: on the property or in the body, once or repeated."""
    return old != new and _plainly(old) == _plainly(new)


def _plainly(each: NodeType | EdgeType) -> tuple[object, ...]:
    properties = {
        name: replace(
            held,
            annotations=tuple(
                each_annotation for each_annotation in held.annotations if each_annotation.name not in SHORTHAND
            ),
        )
        for name, held in each.properties.items()
    }
    rules = each.rules
    demands = (rules.key, frozenset(rules.unique), frozenset(rules.indexes), frozenset(rules.checks))
    ranges = frozenset(map(range_text, rules.ranges))
    return (each.name, each.annotations, properties, demands, ranges)
