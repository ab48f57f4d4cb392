"""What was written, expressions: the terms that filters, projections, orderings and assignments are made of."""

from __future__ import annotations

from dataclasses import field
from typing import Literal, TypeAlias

from omnigraph.language.core.diagnostics import NOWHERE, Span
from omnigraph.lazy import record

LiteralKind = Literal["string", "integer", "float", "boolean", "null", "date", "datetime"]
ArithmeticOperator = Literal["+", "-", "*", "/", "%"]
ComparisonOperator = Literal["=", "!=", "<", "<=", ">", ">=", "contains", "starts_with"]


@record
class LiteralValue:
    """A number, a text, a truth value, null, or the text inside `date("…")` and `datetime("…")`."""

    kind: LiteralKind
    value: str | int | float | bool | None
    span: Span = field(default=NOWHERE, compare=False)


@record
class ListValue:
    """`[a, b]`."""

    items: tuple[Expression, ...]
    span: Span = field(default=NOWHERE, compare=False)


@record
class VariableUse:
    """`$x`, without the dollar sign."""

    name: str
    span: Span = field(default=NOWHERE, compare=False)


@record
class PropertyUse:
    """`$x.name`."""

    variable: str
    property: str
    span: Span = field(default=NOWHERE, compare=False)


@record
class NameUse:
    """A bare word: an alias in a read, a property of the row in a mutation."""

    name: str
    span: Span = field(default=NOWHERE, compare=False)


@record
class Call:
    """`count(distinct $x)`, `search($d.title, $q)`, `now()`."""

    function: str
    arguments: tuple[Expression, ...] = ()
    distinct: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@record
class Negative:
    """`-x`."""

    operand: Expression
    span: Span = field(default=NOWHERE, compare=False)


@record
class Arithmetic:
    """`a + b`."""

    operator: ArithmeticOperator
    left: Expression
    right: Expression
    span: Span = field(default=NOWHERE, compare=False)


@record
class Comparison:
    """`a < b`, `a contains b`."""

    operator: ComparisonOperator
    left: Expression
    right: Expression
    span: Span = field(default=NOWHERE, compare=False)


@record
class NullTest:
    """`a is null`, `a is not null`."""

    operand: Expression
    negated: bool
    span: Span = field(default=NOWHERE, compare=False)


@record
class Membership:
    """`a in list`, `a not in list`."""

    item: Expression
    items: Expression
    negated: bool
    span: Span = field(default=NOWHERE, compare=False)


@record
class AllOf:
    """`a and b and …`."""

    operands: tuple[Expression, ...]
    span: Span = field(default=NOWHERE, compare=False)


@record
class AnyOf:
    """`a or b or …`."""

    operands: tuple[Expression, ...]
    span: Span = field(default=NOWHERE, compare=False)


@record
class NotOf:
    """`not a`."""

    operand: Expression
    span: Span = field(default=NOWHERE, compare=False)


Expression: TypeAlias = (
    LiteralValue
    | ListValue
    | VariableUse
    | PropertyUse
    | NameUse
    | Call
    | Negative
    | Arithmetic
    | Comparison
    | NullTest
    | Membership
    | AllOf
    | AnyOf
    | NotOf
)
