"""A query that has passed every check, with all that an executor needs: types, directions, concrete tables, columns.

Nothing here is text any more. Names of variables are unique within a pattern and what surrounds it; each `$_` has a
name of its own.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Literal, TypeAlias

from omnigraph.language.core.diagnostics import SourceText
from omnigraph.lazy import record

if TYPE_CHECKING:
    from omnigraph.catalog.catalog import PropertyType
    from omnigraph.language.ir.expressions import Expression, ParameterValue
    from omnigraph.language.ir.types import ValueType

# Bounds of `{n,}`. A walk that would go on beyond must fail, not fall silent: see `Hops.capped`.
HOP_CAP = 1_000

EntityKind = Literal["node", "edge"]


@record
class Parameter:
    """A declared parameter."""

    name: str
    type: PropertyType


@record
class Variable:
    """A name that a pattern gives to nodes, edges or paths.

    `types` are the concrete types it can be, sorted: several when it was bound to an interface. `declared` is the name
    that its properties are looked up under.
    """

    name: str
    kind: Literal["node", "edge", "path"]
    declared: str
    types: tuple[str, ...]
    is_interface: bool = False


@record
class Hops:
    """How far a traversal goes, both bounds included. `capped` when no end was written and HOP_CAP stands for it."""

    minimum: int = 1
    maximum: int = 1
    capped: bool = False


@record
class Traversal:
    """Follow edges from `source` to `target`. `in` goes against the edge's arrow, `both` along and against it."""

    source: str
    target: str
    edge: str
    direction: Literal["out", "in", "both"]
    hops: Hops = Hops()
    edge_variable: str | None = None


@record
class ShortestPath:
    """One row for each pair of bound ends that a path within the bounds connects; a minimum of 0 lets them be one node.

    Of several shortest paths it is the one whose node ids, and then edge ids, come first in order.
    """

    variable: str
    source: str
    target: str
    edge: str
    direction: Literal["out", "both"]
    hops: Hops


@record
class Pattern:
    """What must hold together. In this order: nodes and traversals, paths, optionals, filters, negations.

    `variables` are those it introduces; `outer` are the names from around it that it mentions. Filters are a
    conjunction; the fields of bindings are among them. A traversal may end at variables that are already there.
    """

    variables: tuple[Variable, ...]
    traversals: tuple[Traversal, ...] = ()
    paths: tuple[ShortestPath, ...] = ()
    optionals: tuple[Pattern, ...] = ()
    filters: tuple[Expression, ...] = ()
    negations: tuple[Pattern, ...] = ()
    outer: frozenset[str] = frozenset()


@record
class Column:
    """A column of the result. In an aggregated query, one without aggregates is a group key."""

    name: str
    value: Expression
    type: ValueType


@record
class OrderKey:
    """Nulls come first ascending and last descending."""

    value: Expression
    descending: bool


@record
class CheckedQuery:
    """A read. `aggregated` when a column, a having condition or an order key has an aggregate."""

    name: str
    parameters: tuple[Parameter, ...]
    pattern: Pattern
    columns: tuple[Column, ...]
    distinct: bool = False
    aggregated: bool = False
    having: tuple[Expression, ...] = ()
    order: tuple[OrderKey, ...] = ()
    limit: int | ParameterValue | None = None
    offset: int | ParameterValue | None = None
    uses_now: bool = False
    description: str | None = None
    instruction: str | None = None
    source: SourceText = field(default=SourceText(""), compare=False, repr=False)

    @property
    def variables(self) -> dict[str, Variable]:
        """The variables that the result can be made from: those of the pattern and of its optional parts."""
        return {each.name: each for each in _visible(self.pattern)}


def _visible(pattern: Pattern) -> list[Variable]:
    inside = [each for optional in pattern.optionals for each in _visible(optional)]
    return [*pattern.variables, *inside]


# -- mutations ---------------------------------------------------------------------------------------------------------


@record
class StatementTable:
    """The table that a statement changes."""

    kind: EntityKind
    name: str


@record
class Assignment:
    """A property and its new value; a constant already has the property's type."""

    property: str
    type: PropertyType
    value: Expression


@record
class Insert:
    """A new row. An edge has the ids of its ends in `source` and `target`. `on_conflict`: if the key exists already."""

    table: StatementTable
    values: tuple[Assignment, ...]
    source: Expression | None = None
    target: Expression | None = None
    on_conflict: Literal["replace", "error", "ignore"] = "replace"


@record
class Upsert:
    """A new row, or new values for the existing one of the same key.

    `unset_required` are properties that a new row must have and the statement does not give: an error when there is no
    row yet, nothing when there is one.
    """

    table: StatementTable
    values: tuple[Assignment, ...]
    unset_required: tuple[str, ...] = ()
    source: Expression | None = None
    target: Expression | None = None


@record
class Update:
    """New values, made from the row's old ones, for every row that matches."""

    table: StatementTable
    values: tuple[Assignment, ...]
    where: Expression


@record
class Delete:
    """Every row that matches goes; with a node go the edges at it, whose types are `cascades`."""

    table: StatementTable
    where: Expression
    cascades: tuple[str, ...] = ()


Statement: TypeAlias = Insert | Upsert | Update | Delete


@record
class CheckedMutation:
    """Statements in order; later ones see what earlier ones did."""

    name: str
    parameters: tuple[Parameter, ...]
    statements: tuple[Statement, ...]
    uses_now: bool = False
    description: str | None = None
    instruction: str | None = None
    source: SourceText = field(default=SourceText(""), compare=False, repr=False)
