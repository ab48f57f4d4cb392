"""The children of a reduced rule: tokens, punctuation too, and nodes. The first and the last give a node its place."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import Any, TypeAlias

from omnigraph.language.diagnostics import Span
from omnigraph.language.query.literals import decode_string
from omnigraph.language.query.misread import Misread

Children: TypeAlias = list[Any]


def span_of(child: Any) -> Span:
    """The place of a token or a node."""
    span: Span = child.span if hasattr(child, "span") else Span(child.start_pos, child.end_pos)
    return span


def place(children: Children) -> Span:
    """From the first child to the last."""
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
        raise Misread(span_of(string), str(error)) from error


def number(integer: Any, *, below: int, what: str) -> int:
    """The value of an INTEGER token that must be smaller than a bound."""
    # The length is looked at first: converting a megabyte of digits takes quadratic time.
    text = str(integer).lstrip("0") or "0"
    if len(text) > len(str(below)) or int(text) >= below:
        raise Misread(span_of(integer), f"{what} must be smaller than {below}")
    return int(text)
