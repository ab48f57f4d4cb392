"""The root of the tree of errors, and the findings that errors about texts carry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Diagnostic:
    """One finding about a text: what, and where. Line and column count from 1; offsets are in characters."""

    message: str
    code: str
    start: int = 0
    end: int = 0
    line: int = 1
    column: int = 1
    source_name: str = "<text>"
    excerpt: str = ""

    def __str__(self) -> str:
        return self.excerpt or f"{self.source_name}:{self.line}:{self.column}: {self.message}"


class OmniGraphError(Exception):
    """The root of the tree."""

    code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __reduce__(self) -> tuple[object, ...]:
        return _revive, (type(self), self.message, self.__dict__)


def _revive(kind: type[OmniGraphError], message: str, fields: dict[str, object]) -> OmniGraphError:
    """Unpickle without calling a subclass's own constructor."""
    error = kind.__new__(kind, message)
    Exception.__init__(error, message)
    error.__dict__.update(fields)
    return error
