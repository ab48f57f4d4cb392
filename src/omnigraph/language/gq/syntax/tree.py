"""What was written: the tree of a `.gq` file, every node with its place.

Names are unresolved here: `$x` may be a parameter or a variable, a bare word an alias or a property. Nodes compare by
what they say, not by where they stand.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Literal, TypeAlias

from omnigraph.errors import QueryError
from omnigraph.language.core.diagnostics import NOWHERE, SourceText, Span
from omnigraph.language.gq.syntax.expressions import Expression, VariableUse
from omnigraph.lazy import record

if TYPE_CHECKING:
    from omnigraph.catalog.catalog import PropertyType


# -- patterns ----------------------------------------------------------------------------------------------------------


@record
class Field:
    """`name: value` in a binding or an assignment."""

    name: str
    value: Expression
    span: Span = field(default=NOWHERE, compare=False)
    name_span: Span = field(default=NOWHERE, compare=False)


@record
class Hops:
    """`{1,3}`; an open end is None."""

    minimum: int
    maximum: int | None
    span: Span = field(default=NOWHERE, compare=False)


@record
class Edge:
    """The edge of a traversal; `<knows>` goes both ways."""

    name: str
    undirected: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@record
class Binding:
    """`$p: Person { name: "Ada" }`."""

    variable: VariableUse
    type_name: str
    fields: tuple[Field, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)
    type_span: Span = field(default=NOWHERE, compare=False)


@record
class Traversal:
    """`$a $e: knows{1,3} $b`."""

    source: VariableUse
    edge: Edge
    target: VariableUse
    edge_variable: VariableUse | None = None
    hops: Hops | None = None
    span: Span = field(default=NOWHERE, compare=False)


@record
class Path:
    """`$path: shortest($a knows{1,9} $b)`."""

    variable: VariableUse
    source: VariableUse
    edge: Edge
    target: VariableUse
    hops: Hops | None = None
    span: Span = field(default=NOWHERE, compare=False)


@record
class Negation:
    """`not { … }`."""

    clauses: tuple[Clause, ...]
    span: Span = field(default=NOWHERE, compare=False)


@record
class Optional:
    """`optional { … }`."""

    clauses: tuple[Clause, ...]
    span: Span = field(default=NOWHERE, compare=False)


Clause: TypeAlias = Binding | Traversal | Path | Negation | Optional | Expression

# -- queries -----------------------------------------------------------------------------------------------------------


@record
class Projection:
    """One column of `return`."""

    value: Expression
    alias: str | None = None
    span: Span = field(default=NOWHERE, compare=False)


@record
class Ordering:
    """One key of `order`; `direction` is None when it was not written."""

    value: Expression
    direction: Literal["asc", "desc"] | None = None
    span: Span = field(default=NOWHERE, compare=False)


@record
class Bound:
    """`limit 10` or `offset $skip`."""

    kind: Literal["limit", "offset"]
    value: int | VariableUse
    span: Span = field(default=NOWHERE, compare=False)


@record
class ReadQuery:
    """The body of a read query."""

    clauses: tuple[Clause, ...]
    projections: tuple[Projection, ...]
    distinct: bool = False
    having: tuple[Expression, ...] = ()
    order: tuple[Ordering, ...] = ()
    limit: Bound | None = None
    offset: Bound | None = None


OnConflict = Literal["replace", "error", "ignore"]


@record
class Insert:
    """`insert Person { … }`, with what to do if the row exists: `on conflict update` is an `Upsert`."""

    type_name: str
    fields: tuple[Field, ...]
    on_conflict: OnConflict = "replace"
    span: Span = field(default=NOWHERE, compare=False)
    type_span: Span = field(default=NOWHERE, compare=False)


@record
class Upsert:
    """`upsert Person { … }`: what is not named keeps its value when the row exists."""

    type_name: str
    fields: tuple[Field, ...]
    span: Span = field(default=NOWHERE, compare=False)
    type_span: Span = field(default=NOWHERE, compare=False)


@record
class Update:
    """`update Person set { … } where …`."""

    type_name: str
    fields: tuple[Field, ...]
    where: Expression
    span: Span = field(default=NOWHERE, compare=False)
    type_span: Span = field(default=NOWHERE, compare=False)


@record
class Delete:
    """`delete Person where …`."""

    type_name: str
    where: Expression
    span: Span = field(default=NOWHERE, compare=False)
    type_span: Span = field(default=NOWHERE, compare=False)


Statement: TypeAlias = Insert | Upsert | Update | Delete


@record
class Mutation:
    """The body of a query that changes the graph."""

    statements: tuple[Statement, ...]


@record
class Parameter:
    """`$name: String?`; `type` is None when no such type exists, and `type_text` says what was written."""

    name: str
    type: PropertyType | None
    type_text: str
    span: Span = field(default=NOWHERE, compare=False)


@record
class Query:
    """One named query, with the text it stands in."""

    name: str
    parameters: tuple[Parameter, ...]
    body: ReadQuery | Mutation
    description: str | None = None
    instruction: str | None = None
    span: Span = field(default=NOWHERE, compare=False)
    name_span: Span = field(default=NOWHERE, compare=False)
    source: SourceText = field(default=SourceText(""), compare=False, repr=False)

    @property
    def is_mutation(self) -> bool:
        """Whether it changes the graph."""
        return isinstance(self.body, Mutation)


@record
class QueryFile:
    """The queries of one text, in order."""

    queries: tuple[Query, ...]
    source: SourceText = field(default=SourceText(""), compare=False, repr=False)

    def select(self, name: str | None = None) -> Query:
        """The query of that name, or the only one when no name is given."""
        found = [each for each in self.queries if name is None or each.name == name]
        if len(found) == 1:
            return found[0]
        raise QueryError((self.source.diagnostic(NOWHERE, "Q001", self._no_choice(name, found)),))

    def _no_choice(self, name: str | None, found: list[Query]) -> str:
        names = ", ".join(each.name for each in self.queries)
        if found and name is None:
            return f"query file contains multiple queries; pass a name: {names}"
        if found:
            return f"query '{name}' is declared {len(found)} times; give each its own name"
        if name is None:
            return "query file contains no query"
        return f"query '{name}' not found; the file has: {names or 'none'}"
