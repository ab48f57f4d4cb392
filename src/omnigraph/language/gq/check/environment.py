"""What a checker knows while it walks: the catalog, the parameters, the names in sight, and the findings so far."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from omnigraph.lazy import record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from omnigraph.catalog.catalog import Catalog, PropertyType
    from omnigraph.errors import Diagnostic
    from omnigraph.language.core.diagnostics import Span
    from omnigraph.language.gq.syntax import expressions as written
    from omnigraph.language.gq.syntax.tree import Query
    from omnigraph.language.ir.expressions import ColumnValue, Expression
    from omnigraph.language.ir.query import Variable

Clause = Literal["match", "return", "having", "order", "insert", "set", "where"]
ANONYMOUS = "_"


class Session:
    """One check of one query: collects every finding instead of stopping at the first."""

    def __init__(
        self, query: Query, catalog: Catalog, checker: Callable[[Env, written.Expression], Expression | None]
    ) -> None:
        self.query = query
        self.catalog = catalog
        self.checker = checker
        self.parameters: dict[str, PropertyType] = {}
        self.findings: list[Diagnostic] = []
        self.uses_now = False
        self.broken: set[str] = set()
        self._anonymous = 0

    def report(self, span: Span, code: str, message: str) -> None:
        """Keep a finding."""
        self.findings.append(self.query.source.diagnostic(span, code, message))

    def give_up(self, *names: str) -> None:
        """These variables belong to a clause that was refused: that they are unbound is no news."""
        self.broken.update(names)

    def anonymous(self) -> str:
        """A name for one `$_`; no text can spell it."""
        self._anonymous += 1
        return f"{ANONYMOUS}#{self._anonymous}"


@dataclass
class BoundVariable:
    """A variable in sight. `optional` when it may be missing where it is looked at."""

    variable: Variable
    optional: bool = False

    def article(self) -> str:
        """`a node`, `an edge`, `a path`."""
        return f"{'an' if self.variable.kind == 'edge' else 'a'} {self.variable.kind}"

    def restrict(self, types: frozenset[str]) -> None:
        """Keep only these of its concrete types."""
        remaining = tuple(each for each in self.variable.types if each in types)
        self.variable = replace(self.variable, types=remaining)


class CheckScope:
    """The variables of a block, and of what surrounds it."""

    def __init__(self, around: CheckScope | None = None) -> None:
        self.around = around
        self.own: dict[str, BoundVariable] = {}
        self.outer: set[str] = set()

    def find(self, name: str) -> BoundVariable | None:
        """A variable by name; one from around is remembered as used."""
        if name in self.own:
            return self.own[name]
        found = self.around.find(name) if self.around else None
        if found:
            self.outer.add(name)
        return found

    def declare(self, variable: Variable, *, optional: bool = False) -> BoundVariable:
        """A new variable of this block."""
        bound = self.own[variable.name] = BoundVariable(variable, optional)
        return bound


@record
class Row:
    """The row that a mutation works on: bare words are its values."""

    type_name: str
    values: Mapping[str, tuple[str, PropertyType]]


@record
class Env:
    """Where an expression stands, and what its names can mean there."""

    session: Session
    clause: Clause
    scope: CheckScope | None = None
    row: Row | None = None
    columns: Mapping[str, ColumnValue] = field(default_factory=dict)

    def check(self, node: written.Expression) -> Expression | None:
        """The checked expression, or None after a finding was reported."""
        return self.session.checker(self, node)

    def fail(self, span: Span, code: str, message: str) -> None:
        """Report a finding."""
        self.session.report(span, code, message)
