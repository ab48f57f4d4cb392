"""Diagnostics of both languages: source positions, excerpts that underline them, suggestions for misspelt names.

Offsets are in characters; lines end at a line feed. A syntax error is raised inside the parser and reaches users as a
`QueryError`.
"""

from __future__ import annotations

from unicodedata import east_asian_width

from omnigraph.errors import Diagnostic
from omnigraph.lazy import record

_WIDEST_LINE = 120
_ELLIPSIS = "…"


@record
class Span:
    """A stretch of a text, from `start` up to but not including `end`."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """From the beginning of this one to the end of another."""
        return Span(self.start, max(self.end, other.end))


NOWHERE = Span(0, 0)


def diagnostic(text: str, *, start: int, end: int, message: str, code: str, source_name: str = "<text>") -> Diagnostic:
    """A finding with its line and column, and an excerpt that underlines the place. A zero width is shown as one."""
    start = min(max(start, 0), len(text))
    end = min(max(end, start), len(text))
    line_start = text.rfind("\n", 0, start) + 1
    line, column = text.count("\n", 0, start) + 1, start - line_start + 1
    excerpt = _excerpt(text, line_start, line, start, end)
    headline = f"{source_name}:{line}:{column}: error[{code}]: {message}"
    return Diagnostic(
        message=message,
        code=code,
        start=start,
        end=end,
        line=line,
        column=column,
        source_name=source_name,
        excerpt=f"{headline}\n{excerpt}",
    )


def _excerpt(text: str, line_start: int, line: int, start: int, end: int) -> str:
    """Two rows: the line, and carets under the part of the span that lies on it."""
    line_end = text.find("\n", start)
    line_end = len(text) if line_end < 0 else line_end
    first, last = _window(line_start, line_end, start)
    shown = _printable(text[first:last].rstrip("\r"))
    before = _padding(_printable(text[first:start]))
    marked = _printable(text[start : min(end, last)].rstrip("\r"))
    carets = "^" * max(1, sum(_cells(each) for each in marked))
    head = _ELLIPSIS if first > line_start else ""
    tail = _ELLIPSIS if last < line_end else ""
    gutter = " " * len(str(line))
    return f" {line} | {head}{shown}{tail}\n {gutter} | {' ' * len(head)}{before}{carets}"


def _window(line_start: int, line_end: int, start: int) -> tuple[int, int]:
    """The part of a long line that is shown: a machine-written line must not fill the screen."""
    if line_end - line_start <= _WIDEST_LINE:
        return line_start, line_end
    first = max(line_start, start - _WIDEST_LINE // 2)
    return first, min(line_end, first + _WIDEST_LINE)


def _printable(text: str) -> str:
    """Control characters would move the terminal's cursor, and the carets with it."""
    return "".join(each if each == "\t" or each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def _padding(text: str) -> str:
    return "".join("\t" if each == "\t" else " " * _cells(each) for each in text)


def _cells(character: str) -> int:
    return 2 if east_asian_width(character) in "WF" else 1


class SyntaxFault(Exception):
    """What is wrong, and where."""

    def __init__(self, span: Span, message: str) -> None:
        super().__init__(message)
        self.span = span
        self.message = message


@record
class SourceText:
    """A text and what to call it."""

    text: str
    name: str = "<text>"

    def diagnostic(self, span: Span, code: str, message: str) -> Diagnostic:
        """A finding about a stretch of this text."""
        return diagnostic(self.text, start=span.start, end=span.end, message=message, code=code, source_name=self.name)
