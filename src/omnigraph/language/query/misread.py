"""A text that cannot be read: raised inside the parser, shown to users as a `QueryError`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.language.diagnostics import Span


class Misread(Exception):
    """What is wrong, and where."""

    def __init__(self, span: Span, message: str) -> None:
        super().__init__(message)
        self.span = span
        self.message = message
