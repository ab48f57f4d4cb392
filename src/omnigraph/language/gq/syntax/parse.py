"""Parses a `.gq` text into a syntax tree, or refuses it with a `QueryError` that points at the place.

One function per grammar rule builds the node. The parser calls it on reduction, so no parse tree is walked and no text
is nested too deeply for the stack.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from functools import cache
from types import SimpleNamespace
from typing import Any

from omnigraph.errors import QueryError
from omnigraph.language.core.diagnostics import SourceText, Span, SyntaxFault
from omnigraph.language.core.parse_tables import Grammar
from omnigraph.language.gq.syntax.build_expressions import RULES as EXPRESSION_RULES
from omnigraph.language.gq.syntax.build_patterns import RULES as PATTERN_RULES
from omnigraph.language.gq.syntax.build_queries import RULES as QUERY_RULES
from omnigraph.language.gq.syntax.keywords import KeywordPass
from omnigraph.language.gq.syntax.tree import Query, QueryFile

BUILDER = SimpleNamespace(**EXPRESSION_RULES, **PATTERN_RULES, **QUERY_RULES)


DEPTH_LIMIT = 96
_SHOWN = {
    "NAME": "a name",
    "FIELD": "a property name",
    "TYPE": "a type name",
    "VARIABLE": "a $variable",
    "EDGE": "an edge name",
    "STRING": "a string",
    "INTEGER": "an integer",
    "FLOAT": "a number",
    "BOOLEAN": "true or false",
    "COMPARE": "a comparison",
    "FUNCTION": "a function",
    "LPAR": "'('",
    "RPAR": "')'",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "LSQB": "'['",
    "RSQB": "']'",
    "COMMA": "','",
    "COLON": "':'",
    "DOT": "'.'",
    "AT": "an annotation",
    "QMARK": "'?'",
    "MINUS": "'-'",
    "$END": "the end of the text",
}
# Tokens that can begin or continue any expression; as expected tokens they do not explain an error.
_OPERATORS = {"PLUS", "STAR", "SLASH", "PERCENT", "AND", "OR", "IS", "IN", "NOT_IN"}
_EXPRESSION = {"LPAR", "LSQB", "STRING", "INTEGER", "FLOAT", "VARIABLE", "FUNCTION", "NULL", "DATE", "DATETIME"}


def parse_queries(text: str, source_name: str = "<text>") -> QueryFile:
    """Parse the queries of a `.gq` text. Raises only `QueryError`."""
    source = SourceText(text, source_name)
    try:
        queries = tuple(replace(each, source=source) for each in _read(text))
        _refuse_deep(queries)
    except SyntaxFault as error:
        raise QueryError((source.diagnostic(error.span, "Q000", error.message),)) from None
    return QueryFile(queries, source)


def _read(text: str) -> tuple[Query, ...]:
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SyntaxFault(Span(error.start, error.start + 1), "this character is half of a surrogate pair") from None
    try:
        queries: tuple[Query, ...] = _parser().parse(text)
    except UnexpectedCharacters as error:
        raise SyntaxFault(
            Span(error.pos_in_stream, error.pos_in_stream + 1), _character(text, error.pos_in_stream)
        ) from None
    except UnexpectedToken as error:
        raise _token_fault(text, error) from None
    return queries


@cache
def _parser() -> Any:
    """The parser, built at the first query, because building it would slow down the import."""
    return grammar_file().parser()


def grammar_file() -> Grammar:
    """The grammar file of queries, and the options of its parser."""

    options = {"lexer": "basic", "keep_all_tokens": True}
    return Grammar("omnigraph.language.gq.syntax", options, {"postlex": KeywordPass(), "transformer": BUILDER})


def _character(text: str, position: int) -> str:
    if text[position] == "$":
        return "a variable is written $name, with a lower-case letter or an underscore after the dollar sign"
    return f"unexpected character {text[position]!r}"


def _token_fault(text: str, error: Any) -> SyntaxFault:
    token = error.token
    at_end = token.type == "$END"
    span = Span(len(text), len(text)) if at_end else Span(token.start_pos, token.end_pos)
    found = "the text ends too early" if at_end else f"unexpected '{_shortened(str(token))}'"
    if token.type == "COMPARE":
        return SyntaxFault(span, f"{found}: a comparison has one value on each side; for more write `a < b and b < c`")
    return SyntaxFault(span, f"{found}: expected {_expected(error.interactive_parser.accepts())}")


def _expected(accepted: set[str]) -> str:
    names = {each for each in accepted if each not in _OPERATORS}
    if names >= _EXPRESSION:
        names -= _EXPRESSION | {"NAME", "BOOLEAN", "MINUS", "NOT"}
        return " or ".join(["an expression", *_named(names)])
    return " or ".join(_named(names)) or "something else"


def _named(names: set[str]) -> list[str]:
    return sorted({_SHOWN.get(each, f"'{each.lower()}'") for each in names})


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"


def _refuse_deep(queries: tuple[Query, ...]) -> None:
    """Refuse chains without brackets that nest too deeply (`not not …`, `1 + 1 + …`): tree walks may recurse."""
    pending_nodes: list[tuple[Any, int]] = [(each.body, 0) for each in queries]
    while pending_nodes:
        node, depth = pending_nodes.pop()
        if depth > DEPTH_LIMIT:
            raise SyntaxFault(node.span, f"this expression is nested deeper than {DEPTH_LIMIT} levels")
        pending_nodes.extend((child, depth + 1) for child in _children(node))


def _children(node: Any) -> list[Any]:
    values = [getattr(node, each.name) for each in fields(node)]
    flat = [item for value in values for item in (value if isinstance(value, tuple) else (value,))]
    return [each for each in flat if is_dataclass(each) and not isinstance(each, Span)]
