"""Defines the operators of a query plan. Each maps a batch of matches to batches of matches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from omnigraph.language.ir.expressions import Expression, TextMatch
    from omnigraph.language.ir.query import ShortestPath, Traversal, Variable
    from omnigraph.storage.filters.model import Filter


@dataclass(frozen=True)
class Conditions:
    """The conditions on one variable: a pushed-down filter, text searches, and the rest for DuckDB."""

    pushed: Filter | None = None
    texts: tuple[TextMatch, ...] = ()
    rest: tuple[Expression, ...] = ()

    def __bool__(self) -> bool:
        return self.pushed is not None or bool(self.texts) or bool(self.rest)


NO_CONDITIONS = Conditions()


@dataclass(frozen=True)
class Scan:
    """Every node that satisfies the conditions of a variable; a cross product with the rows that are already bound."""

    variable: Variable
    conditions: Conditions
    estimate: float


@dataclass(frozen=True)
class Expand:
    """Follow edges from a bound variable to a new one. The traversal is turned to start at the bound variable."""

    traversal: Traversal
    source: Variable
    target: Variable
    conditions: Conditions
    edge: Variable | None
    edge_conditions: Conditions
    estimate: float


@dataclass(frozen=True)
class ExpandInto:
    """Keep rows whose two bound endpoints are connected; with a bound edge, one row for each such edge."""

    traversal: Traversal
    source: Variable
    target: Variable
    edge: Variable | None
    edge_conditions: Conditions
    estimate: float


@dataclass(frozen=True)
class CountedBranch:
    """A part of the pattern that is attached to one variable, and of which only the number of matches is needed."""

    traversal: Traversal
    target: Variable
    conditions: Conditions
    edge_conditions: Conditions
    branches: tuple[CountedBranch, ...] = ()


@dataclass(frozen=True)
class CountBranches:
    """Multiply the weight of each row by the number of matches of the branches at a variable; zero drops the row."""

    variable: Variable
    branches: tuple[CountedBranch, ...]
    estimate: float


@dataclass(frozen=True)
class CountComponent:
    """Multiply all rows by the number of matches of a component that is connected to nothing else."""

    variable: Variable
    conditions: Conditions
    branches: tuple[CountedBranch, ...]
    estimate: float


@dataclass(frozen=True)
class FilterRows:
    """Keep the rows for which all conditions are true."""

    conditions: tuple[Expression, ...]
    estimate: float


@dataclass(frozen=True)
class FindShortestPath:
    """Bind a shortest path between two bound variables; rows without one are dropped."""

    path: ShortestPath
    source: Variable
    target: Variable
    estimate: float


@dataclass(frozen=True)
class OptionalMatch:
    """Left join: every row with each match of the inner operators, or once with unbound variables."""

    steps: tuple[Step, ...]
    variables: tuple[Variable, ...]
    introduces: tuple[Variable, ...]
    estimate: float


@dataclass(frozen=True)
class AntiJoin:
    """Keep the rows for which the inner operators find no match. The result depends on `correlated` variables alone."""

    steps: tuple[Step, ...]
    variables: tuple[Variable, ...]
    correlated: tuple[str, ...]
    estimate: float


Step: TypeAlias = (
    Scan
    | Expand
    | ExpandInto
    | CountBranches
    | CountComponent
    | FilterRows
    | FindShortestPath
    | OptionalMatch
    | AntiJoin
)
