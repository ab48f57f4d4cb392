"""Explains where a text leaves the grammar, then finds the next place from which it can be read again.

Loaded only when a text is broken. The parser resumes at the next declaration or the next line of a body, so that one
run shows several errors; nothing is read twice, which keeps the time linear.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from lark import TextSlice, UnexpectedInput, UnexpectedToken

from omnigraph.language.core.diagnostics import Span

if TYPE_CHECKING:
    from lark import Lark

    from omnigraph.language.schema.findings import Findings

_MOST_ERRORS = 20
_LONGEST_WORD = 80
_TYPES = ("String", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime", "Blob", "Vector", "enum")
_OTHER_FORMS = {
    **dict.fromkeys(("str", "text", "varchar", "utf8"), "String"),
    **dict.fromkeys(("int", "integer", "long", "bigint", "int64"), "I64"),
    **dict.fromkeys(("float", "double", "number", "float64"), "F64"),
    **dict.fromkeys(("timestamp", "time"), "DateTime"),
    **dict.fromkeys(("bytes", "binary"), "Blob"),
    "int32": "I32",
    "uint32": "U32",
    "uint64": "U64",
    "float32": "F32",
    "boolean": "Bool",
}
_TERMINALS = {
    "TYPE_NAME": "a type name",
    "NAME": "a name",
    "ENDPOINT": "a name",
    "SCALAR": "a type",
    "ENUM_VALUE": "an enum value",
    "NUMBER": "a number",
    "STRING": "a string",
    "BOOL": "true or false",
    "$END": "the end of the text",
    "COLON": "`:`",
    "COMMA": "`,`",
    "LBRACE": "`{`",
    "RBRACE": "`}`",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "LSQB": "`[`",
    "RSQB": "`]`",
    "AT": "`@`",
    "EQUALS": "`=`",
    "DOTS": "`..`",
    "NULLABLE": "`?`",
    "VECTOR": "`Vector`",
    "__ANON_0": "`->`",
}
_RESUME = re.compile(
    r"//[^\n]*"
    r"|/\*.*?(?:\*/|\Z)"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|^[ \t]*(?P<declaration>(?:node|edge|interface)\s+[A-Za-z])"
    r"|^[ \t]*(?P<member>[a-z_]\w*[ \t]*:|@(?:key|unique|index|range|check)[ \t]*\(|\})",
    re.MULTILINE | re.DOTALL,
)

# Under the finding of an unclosed body stands the next declaration: it is read from its first word.
_DECLARATION = re.compile(r"(?:node|edge|interface)\s+[A-Z]")


def explain(grammar: Lark, error: UnexpectedInput, findings: Findings) -> None:
    """Note this error and those after it."""
    for _ in range(_MOST_ERRORS):
        position, expected = _position(error, findings.text), _expected(error)
        code, span, message = _finding(findings.text, position, expected)
        findings.add(code, span, message)
        resume = None if code in ("S002", "S003") else _resume(findings.text, span.start)
        if resume is None:
            return
        start, rule = resume
        try:
            grammar.parse(TextSlice(findings.text, start, len(findings.text)), start=rule)
            return
        except UnexpectedInput as following:
            error = following


def _position(error: UnexpectedInput, text: str) -> int:
    if not isinstance(error, UnexpectedToken) or error.token.type != "$END":
        return int(error.pos_in_stream)
    return len(text.rstrip())


def _expected(error: UnexpectedInput) -> frozenset[str]:
    return frozenset(error.expected if isinstance(error, UnexpectedToken) else error.allowed)


def _finding(text: str, position: int, expected: frozenset[str]) -> tuple[str, Span, str]:
    """The code, the place and the words for one error."""
    if text.startswith('"', position) and "STRING" in expected:
        return "S002", Span(position, position + 1), "this string is not closed"
    if text.startswith("/*", position):
        return "S003", Span(position, position + 2), "this comment is not closed"
    span = _word(text, position)
    word = text[span.start : span.end]
    before = _word_before(text, span.start)
    if expected == {"COLON"} and text[before.start : before.end] in ("node", "edge", "interface"):
        return "S001", before, "the body above is not closed: expected `}`"
    if expected == {"COLON"} and _stands_for_a_type(text, before):
        return "S005", before, _unknown_type(text[before.start : before.end])
    if "SCALAR" in expected and "LSQB" in expected and word[:1].isalpha():
        return "S005", span, _unknown_type(word)
    if expected == {"SCALAR"}:
        return "S006", span, "a list holds scalars: no lists, vectors or enums inside a list"
    return "S001", span, _hint(word, expected) or _plain(word, expected)


def _word(text: str, position: int) -> Span:
    """The whole word at a place, or the one character; empty at the end of the text."""
    start = end = position
    if text[position : position + 1].isalnum() or text[position : position + 1] == "_":
        while start > max(0, position - _LONGEST_WORD) and (text[start - 1].isalnum() or text[start - 1] == "_"):
            start -= 1
        while end < min(len(text), position + _LONGEST_WORD) and (text[end].isalnum() or text[end] == "_"):
            end += 1
        return Span(start, end)
    return Span(position, position if text[position : position + 1].isspace() else min(position + 1, len(text)))


def _word_before(text: str, position: int) -> Span:
    end = position
    while end > max(0, position - _LONGEST_WORD) and text[end - 1].isspace():
        end -= 1
    return _word(text, end - 1) if end else Span(0, 0)


def _stands_for_a_type(text: str, word: Span) -> bool:
    """`name: Strings` was read as `name: String` and a property `s`, because no space is needed between tokens."""
    return text[max(0, word.start - _LONGEST_WORD) : word.start].rstrip().endswith(":")


def _unknown_type(word: str) -> str:
    near = _OTHER_FORMS.get(word.lower()) or next(
        iter(get_close_matches(word, _TYPES, n=1) or [each for each in _TYPES if each.lower() == word.lower()]), None
    )
    return (
        f"there is no type `{word}`: did you mean {near}?"
        if near
        else (f"there is no type `{word}`: the types are {', '.join(_TYPES[:-2])}, Vector(n), enum(…) and [scalar]")
    )


def _hint(word: str, expected: frozenset[str]) -> str | None:
    """The mistakes people make, in their own words."""
    if expected == {"TYPE_NAME"} and word[:1].islower():
        return "the name of a type begins with a capital letter"
    if "NAME" in expected and word[:1].isupper():
        return "a name begins with a small letter here; a text with capitals needs quotes"
    if word == "@" and expected == {"LBRACE", "COMMA"}:
        return "annotations stand before `implements`"
    if word == "*" and "RPAR" in expected:
        return "an open upper end is written `min..`, without `*`"
    return None


def _plain(word: str, expected: frozenset[str]) -> str:
    names = sorted({_TERMINALS.get(each, f"`{each.lower()}`") for each in expected})
    wanted = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
    return f"expected {wanted}, found {f'`{word}`' if word else 'the end of the text'}"


def _resume(text: str, position: int) -> tuple[int, str] | None:
    """Where to read on, and with which rule: a declaration, or a line inside a body."""
    if _DECLARATION.match(text, position):
        return position, "schema"
    line_end = text.find("\n", position)
    if line_end < 0:
        return None
    for match in _RESUME.finditer(text, line_end):
        if match["declaration"]:
            return match.start("declaration"), "schema"
        if match["member"]:
            return match.start("member"), "body_tail"
    return None
