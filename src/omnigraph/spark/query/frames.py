"""Reads the nodes and edges of a snapshot as Spark frames with only the columns that a query needs.

A variable `$v` becomes the columns `v.#key`, `v.id`, `v.<property>` and, if it is returned as a whole, `v`. This module
also determines which properties a query uses and whether it contains something that Spark cannot run.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as f

from omnigraph.language.ir.expressions import (
    Bm25,
    EntityValue,
    Expression,
    Nearest,
    PropertyValue,
    Rrf,
    TextMatch,
    contains,
    walk,
)
from omnigraph.language.ir.types import STRING
from omnigraph.spark.runner import one_task_each
from omnigraph.tasks.table_scan import TableScan, read_scan, tasks_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from omnigraph.catalog.catalog import Catalog, Property
    from omnigraph.language.ir.query import CheckedQuery, Pattern, Variable
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.storage.filters.model import Filter
    from omnigraph.storage.objects.location import Location

# Pseudo-property that identifies a node or edge in the whole graph; no schema can declare this name.
KEY = "#key"
_IDENTITY = frozenset({KEY, "id"})


def refusal(checked: CheckedQuery) -> str | None:
    """The reason why a query cannot run on Spark, or None."""
    for each in _expressions(checked):
        if contains(each, TextMatch, Nearest, Bm25, Rrf):
            return "search"
    return "shortest paths" if any(each.paths for each in _patterns(checked.pattern)) else None


def by_key(checked: CheckedQuery) -> CheckedQuery:
    """Rewrite a query so that entities are compared, tested and counted by their keys."""
    columns = tuple(replace(each, value=_column(each.value)) for each in checked.columns)
    order = tuple(replace(each, value=_column(each.value)) for each in checked.order)
    having = tuple(_keyed(each) for each in checked.having)
    return replace(checked, pattern=_pattern(checked.pattern), columns=columns, having=having, order=order)


def properties(checked: CheckedQuery) -> dict[str, set[str]]:
    """The stored properties that the query uses, by variable."""
    found: dict[str, set[str]] = {}
    for expression in _expressions(checked):
        for each in walk(expression):
            if isinstance(each, PropertyValue) and each.property not in _IDENTITY:
                found.setdefault(each.variable, set()).add(each.property)
    return found


def wholes(checked: CheckedQuery) -> set[str]:
    """The variables that the query returns or orders by as whole entities."""
    values = [*(each.value for each in checked.columns), *(each.value for each in checked.order)]
    return {each.variable for each in values if isinstance(each, EntityValue)}


def _column(value: Expression) -> Expression:
    return value if isinstance(value, EntityValue) else _keyed(value)


def _pattern(pattern: Pattern) -> Pattern:
    return replace(
        pattern,
        filters=tuple(_keyed(each) for each in pattern.filters),
        optionals=tuple(_pattern(each) for each in pattern.optionals),
        negations=tuple(_pattern(each) for each in pattern.negations),
    )


def _keyed(value: Any) -> Any:
    if isinstance(value, EntityValue):
        return PropertyValue(value.variable, KEY, STRING)
    if isinstance(value, tuple):
        return tuple(_keyed(each) for each in value)
    if not is_dataclass(value) or not isinstance(value, Expression):
        return value
    changed = {each.name: _keyed(getattr(value, each.name)) for each in fields(value) if each.name != "type"}
    return replace(value, **{name: new for name, new in changed.items() if new is not getattr(value, name)})


def _patterns(pattern: Pattern) -> Iterator[Pattern]:
    yield pattern
    for inner in (*pattern.optionals, *pattern.negations):
        yield from _patterns(inner)


def _expressions(checked: CheckedQuery) -> Iterator[Expression]:
    for pattern in _patterns(checked.pattern):
        yield from pattern.filters
    yield from (each.value for each in checked.columns)
    yield from checked.having
    yield from (each.value for each in checked.order)


FROM, TO = "#from", "#to"


def column(name: str) -> Column:
    """A column by its name, which may contain dots."""
    return f.col(f"`{name}`")


def key_of(type_name: str, id_column: str) -> Column:
    """The key of an entity: its type and id."""
    return f.concat(f.lit(f"{type_name}:"), column(id_column))


@dataclass(frozen=True)
class Frames:
    """The tables of one snapshot, for one query. `properties` and `wholes` say which columns it needs."""

    session: SparkSession
    location: Location
    snapshot: Snapshot
    catalog: Catalog
    properties: Mapping[str, set[str]]
    wholes: frozenset[str]

    def of(self, variable: Variable, where: Filter | None) -> DataFrame:
        """All entities that a variable can be bound to, with its column names; edges also have `FROM` and `TO`."""
        return reduce(lambda left, right: left.unionByName(right), self._of_types(variable, where))

    def pairs(self, edge: str, direction: str) -> DataFrame:
        """The distinct pairs of nodes that an edge type connects, in the direction of traversal."""
        declared = self.catalog.edges[edge]
        endpoints = self._read(declared.table_key, ("src", "dst"), None).select(
            key_of(declared.source, "src").alias(FROM), key_of(declared.target, "dst").alias(TO)
        )
        return oriented(endpoints, direction).distinct()

    def _of_types(self, variable: Variable, where: Filter | None) -> Sequence[DataFrame]:
        return [self._of_type(variable, name, where) for name in variable.types]

    def _of_type(self, variable: Variable, type_name: str, where: Filter | None) -> DataFrame:
        fixed = ("id", "src", "dst") if variable.kind == "edge" else ("id",)
        visible = self._readable(variable) if variable.name in self.wholes else ()
        wanted = sorted(self.properties.get(variable.name, set()) - set(fixed))
        table_key = f"{variable.kind}:{type_name}"
        rows = self._read(table_key, tuple(dict.fromkeys((*fixed, *wanted, *visible))), where)
        columns = [key_of(type_name, "id").alias(f"{variable.name}.{KEY}")]
        columns += [column(each).alias(f"{variable.name}.{each}") for each in (*fixed, *wanted)]
        if variable.name in self.wholes:
            columns.append(_whole(variable, type_name, fixed, visible).alias(variable.name))
        if variable.kind == "edge":
            edge = self.catalog.edges[type_name]
            columns += [key_of(edge.source, "src").alias(FROM), key_of(edge.target, "dst").alias(TO)]
        return rows.select(*columns)

    def _readable(self, variable: Variable) -> tuple[str, ...]:
        return tuple(name for name, each in self._declared(variable).items() if each.type.scalar != "Blob")

    def _declared(self, variable: Variable) -> Mapping[str, Property]:
        if variable.kind == "edge":
            return self.catalog.edges[variable.declared].properties
        kinds = self.catalog.interfaces if variable.is_interface else self.catalog.nodes
        return kinds[variable.declared].properties

    def _read(self, table_key: str, columns: tuple[str, ...], where: Filter | None) -> DataFrame:
        scan = TableScan(self.location, self.snapshot[table_key].pin, columns, where)
        # Nullable throughout: an optional match leaves every field null, and Spark enforces nullability.
        schema = pa.schema([each.with_nullable(True) for each in scan.schema()])
        return one_task_each(self.session, tasks_of(scan), read_scan, schema)


def oriented(endpoints: DataFrame, direction: str) -> DataFrame:
    """Orient rows with two endpoints: out, in or both. For both, a self-loop occurs once."""
    if direction == "out":
        return endpoints
    others = [name for name in endpoints.columns if name not in (FROM, TO)]
    back = endpoints.select(column(TO).alias(FROM), column(FROM).alias(TO), *(column(name) for name in others))
    return back if direction == "in" else endpoints.unionByName(back.where(column(FROM) != column(TO)))


def _whole(variable: Variable, type_name: str, fixed: Sequence[str], visible: Sequence[str]) -> Column:
    """The entity as a struct with the fields and field order of the embedded engine."""
    fields = [column(each) for each in fixed]
    if variable.is_interface:
        fields.append(f.lit(type_name).alias("type"))
    return f.struct(*fields, *(column(each) for each in visible))
