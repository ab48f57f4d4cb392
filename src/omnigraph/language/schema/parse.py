"""Text to tree: the grammar's rules become the classes of `syntax.py`."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from omnigraph.language.core.diagnostics import Span
from omnigraph.language.core.parse_tables import Grammar
from omnigraph.language.schema.declarations import arrange
from omnigraph.language.schema.findings import Findings
from omnigraph.language.schema.syntax import (
    AnnotationSyntax,
    Argument,
    Bounds,
    Name,
    PropertySyntax,
    SchemaDocument,
    TypeSyntax,
    Value,
    ValueKind,
)

if TYPE_CHECKING:
    from lark import Lark, Token

_KINDS: dict[str, ValueKind] = {
    "STRING": "string",
    "NUMBER": "number",
    "BOOL": "bool",
    "NAME": "name",
    "ENDPOINT": "name",
}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_DECODED = {"n": "\n", "r": "\r", "t": "\t"}


def parse_schema(text: str, source_name: str = "<text>") -> SchemaDocument:
    """The declarations of a `.pg` text. Raises `SchemaError` with every place that cannot be read."""
    findings = Findings(text, source_name)
    document = read(text, findings)
    findings.raise_if_any()
    return document


def read(text: str, findings: Findings) -> SchemaDocument:
    """Like `parse_schema`, but misplaced annotations are only noted. Raises when the grammar itself is broken."""
    _refuse_broken_unicode(text, findings)
    from lark import UnexpectedInput

    try:
        tree = grammar().parse(text, start="schema")
    except UnexpectedInput as first:
        # Here and not at the top: only a text with errors pays for their explanation.
        from omnigraph.language.schema.syntax_errors import explain

        explain(grammar(), first, findings)
        findings.raise_if_any()
        raise
    return arrange(tree.children, findings)


@cache
def grammar() -> Lark:
    """The parser, made at the first text of a process."""
    return grammar_file().parser()


def grammar_file() -> Grammar:
    """The grammar of schemas, and what its parser is made with."""
    return Grammar("omnigraph.language.schema", {"start": ["schema", "body_tail"]}, {"transformer": _Builder()})


def _refuse_broken_unicode(text: str, findings: Findings) -> None:
    """A lone surrogate cannot be stored: better said here than when the file is written."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        findings.add("S007", Span(error.start, error.start + 1), "this character is half of a surrogate pair")
        findings.raise_if_any()


class _Builder:
    """One method per rule of the grammar that makes a part of the tree; lark calls them by name."""

    def list_type(self, children: list[Any]) -> TypeSyntax:
        return TypeSyntax(str(children[1]), _around(children), is_list=True, nullable=_is_nullable(children))

    def enum_type(self, children: list[Any]) -> TypeSyntax:
        values = tuple(_name(each) for each in children if each.type == "ENUM_VALUE")
        return TypeSyntax("enum", _around(children), nullable=_is_nullable(children), enum_values=values)

    def vector_type(self, children: list[Any]) -> TypeSyntax:
        dimensions = _name(children[1])
        return TypeSyntax("Vector", _around(children), nullable=_is_nullable(children), dimensions=dimensions)

    def scalar_type(self, children: list[Any]) -> TypeSyntax:
        return TypeSyntax(str(children[0]), _around(children), nullable=_is_nullable(children))

    def property(self, children: list[Any]) -> PropertySyntax:
        return PropertySyntax(_name(children[0]), children[1])

    def annotation(self, children: list[Any]) -> AnnotationSyntax:
        at, name = children[0], children[1]
        arguments = children[2] if len(children) > 2 else None
        return AnnotationSyntax(str(name), Span(at.start_pos, name.end_pos), arguments)

    def arguments(self, children: list[Any]) -> tuple[Argument, ...]:
        return tuple(children)

    def argument(self, children: list[Any]) -> Argument:
        if isinstance(children[0], Bounds):
            return Argument(children[0])
        if len(children) == 3:
            return Argument(_value(children[2]), _name(children[0]))
        return Argument(_value(children[0]))

    def bounds(self, children: list[Any]) -> Bounds:
        dots = next(index for index, each in enumerate(children) if each.type == "DOTS")
        ends = [_name(each) if each.type == "NUMBER" else None for each in children]
        return Bounds(ends[0] if dots else None, ends[dots + 1] if dots + 1 < len(ends) else None, _around(children))

    def implements(self, children: list[Any]) -> tuple[Name, ...]:
        return tuple(_name(each) for each in children)

    def body(self, children: list[Any]) -> list[Any]:
        return children


def _is_nullable(children: list[Any]) -> bool:
    return bool(children[-1].type == "NULLABLE")


def _name(token: Token) -> Name:
    return Name(str(token), _span(token))


def _value(token: Token) -> Value:
    kind = _KINDS[token.type]
    return Value(kind, _decoded(token) if kind == "string" else str(token), _span(token))


def _decoded(token: Token) -> str:
    """The text between the quotes; an unknown escape stays as it is and is refused by `declarations.py`."""
    inner = str(token)[1:-1]
    if "\\" not in inner:
        return inner
    return _ESCAPE.sub(lambda match: _DECODED.get(match[1], match[1] if match[1] in '"\\' else match[0]), inner)


def _span(token: Token) -> Span:
    return Span(token.start_pos, token.end_pos)


def _around(tokens: list[Any]) -> Span:
    return Span(tokens[0].start_pos, tokens[-1].end_pos)
