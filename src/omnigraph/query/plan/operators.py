"""The operators of a read, in the order in which they run over the rows of a match."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from omnigraph.language.ir.expressions import Expression, TextMatch
    from omnigraph.language.ir.query import ShortestPath, Traversal, Variable
    from omnigraph.storage.filters.model import Filter


@dataclass(frozen=True)
class Conditions:
    """What must hold for one variable alone: a filter for its table, text searches, and the rest for DuckDB."""

    pushed: Filter | None = None
    texts: tuple[TextMatch, ...] = ()
    rest: tuple[Expression, ...] = ()

    def __bool__(self) -> bool:
        return self.pushed is not None or bool(self.texts) or bool(self.rest)


NO_CONDITIONS = Conditions()


@dataclass(frozen=True)
class Scan:
    """Every node that a variable can be; with rows already there, each with each."""

    variable: Variable
    conditions: Conditions
    estimate: float


@dataclass(frozen=True)
class Expand:
    """From a bound variable over edges to a new one. The traversal is turned so that it starts at the bound one."""

    traversal: Traversal
    source: Variable
    target: Variable
    conditions: Conditions
    edge: Variable | None
    edge_conditions: Conditions
    estimate: float


@dataclass(frozen=True)
class ExpandInto:
    """Keep rows whose two bound ends are connected; with a bound edge, one row for each such edge."""

    traversal: Traversal
    source: Variable
    target: Variable
    edge: Variable | None
    edge_conditions: Conditions
    estimate: float


@dataclass(frozen=True)
class CountedBranch:
    """A part of the pattern that hangs on one variable and of which only the number of matches is asked."""

    traversal: Traversal
    target: Variable
    conditions: Conditions
    edge_conditions: Conditions
    branches: tuple[CountedBranch, ...] = ()


@dataclass(frozen=True)
class CountBranches:
    """Multiply each row by the number of ways in which the branches at a bound variable match; none drops the row."""

    variable: Variable
    branches: tuple[CountedBranch, ...]
    estimate: float


@dataclass(frozen=True)
class CountComponent:
    """Multiply all rows by the number of matches of a part that hangs on nothing."""

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
    """The shortest path between two bound variables, for each row that has one."""

    path: ShortestPath
    source: Variable
    target: Variable
    estimate: float


@dataclass(frozen=True)
class OptionalMatch:
    """Every row with each match of the inner steps, or once with nothing when there is none."""

    steps: tuple[Step, ...]
    variables: tuple[Variable, ...]
    introduces: tuple[Variable, ...]
    estimate: float


@dataclass(frozen=True)
class AntiJoin:
    """Keep the rows for which the inner steps find nothing. Only `correlated` variables matter inside."""

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
