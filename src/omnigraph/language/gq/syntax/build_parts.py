"""Helpers for building the syntax tree while the parser runs.

The children of a reduced rule are tokens, including punctuation, and nodes; the first and the last determine the span
of the new node. Parts of rules that end up inside larger nodes exist only during parsing.
"""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from omnigraph.catalog.catalog import PropertyType, ScalarName
from omnigraph.language.core.diagnostics import NOWHERE, Span, SyntaxFault
from omnigraph.language.ir.types import decode_string
from omnigraph.lazy import record

if TYPE_CHECKING:
    from omnigraph.language.gq.syntax import tree

Children: TypeAlias = list[Any]


def span_of(child: Any) -> Span:
    """The span of a token or a node."""
    span: Span = child.span if hasattr(child, "span") else Span(child.start_pos, child.end_pos)
    return span


def span_between(children: Children) -> Span:
    """The span from the first child to the last."""
    return span_of(children[0]).to(span_of(children[-1]))


def tokens(children: Children, kind: str) -> list[Any]:
    """The tokens of one kind, in order."""
    return [each for each in children if getattr(each, "type", None) == kind and not is_dataclass(each)]


def token(children: Children, kind: str) -> Any | None:
    """The first token of a kind."""
    found = tokens(children, kind)
    return found[0] if found else None


def nodes(children: Children) -> tuple[Any, ...]:
    """The nodes among the children, without the tokens."""
    return tuple(each for each in children if is_dataclass(each))


def node(children: Children, kind: type[Any]) -> Any | None:
    """The first node of a kind."""
    return next((each for each in children if isinstance(each, kind)), None)


def unquoted(string: Any) -> str:
    """The text of a STRING token."""
    try:
        return decode_string(str(string))
    except ValueError as error:
        raise SyntaxFault(span_of(string), str(error)) from error


def number(integer: Any, *, below: int, what: str) -> int:
    """The value of an INTEGER token that must be smaller than a bound."""
    # Check the length first: converting a megabyte of digits takes quadratic time.
    text = str(integer).lstrip("0") or "0"
    if len(text) > len(str(below)) or int(text) >= below:
        raise SyntaxFault(span_of(integer), f"{what} must be smaller than {below}")
    return int(text)


@record
class Fields:
    """`{ name: value … }`."""

    items: tuple[tree.Field, ...]
    span: Span = NOWHERE


@record
class Parameters:
    """The parameters in parentheses."""

    items: tuple[tree.Parameter, ...]
    span: Span = NOWHERE


@record
class Note:
    """`@name("value")`."""

    name: str
    value: str
    span: Span = NOWHERE


@record
class Section:
    """`match { … }`, `return { … }`, `having { … }` or `order { … }`."""

    name: str
    items: tuple[Any, ...]
    distinct: bool = False
    span: Span = NOWHERE


@record
class WrittenType:
    """The type of a parameter as written; `scalar` is None when there is no such type."""

    text: str
    scalar: ScalarName | None
    is_list: bool = False
    dimensions: int | None = None
    span: Span = NOWHERE

    def property_type(self, *, nullable: bool) -> PropertyType | None:
        """The declared type, if there is one."""
        if self.scalar is None:
            return None
        return PropertyType(self.scalar, nullable=nullable, is_list=self.is_list, dimensions=self.dimensions)
