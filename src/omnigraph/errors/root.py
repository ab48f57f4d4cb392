"""The root of the tree of errors, and the findings that errors about texts carry."""

from __future__ import annotations

import datetime as dt
import json
import reprlib
import sys
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable


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


def _revive(kind: type[OmniGraphError], message: str, held: dict[str, object]) -> OmniGraphError:
    """Unpickle without calling a subclass's own constructor."""
    error = kind.__new__(kind, message)
    Exception.__init__(error, message)
    error.__dict__.update(held)
    return error


def display_text(value: object) -> str:
    """A value as messages quote it: shortened to 60 characters, however deep it is."""
    try:
        text = repr(value)
    except RecursionError:
        text = reprlib.repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def pack_error(error: OmniGraphError) -> str:
    """An error with all its fields as one line of JSON, for an exchange that carries texts alone."""
    return json.dumps(_packed(error), separators=(",", ":"))


def unpack_error(text: str) -> OmniGraphError | None:
    """The error that `pack_error` wrote. It makes errors and their findings alone, whatever the text says."""
    try:
        found = _unpacked(json.loads(text))
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
    return found if isinstance(found, OmniGraphError) else None


def _packed(value: object) -> object:
    if isinstance(value, OmniGraphError):
        return {"error": _qualified_name(value), "message": value.message, "fields": _packed(dict(value.__dict__))}
    if is_dataclass(value):
        held = {each.name: getattr(value, each.name) for each in fields(value)}
        return {"record": _qualified_name(value), "fields": _packed(held)}
    if isinstance(value, tuple):
        return {"tuple": [_packed(each) for each in value]}
    if isinstance(value, list):
        return [_packed(each) for each in value]
    if isinstance(value, dict):
        return {"dict": [[_packed(key), _packed(each)] for key, each in value.items()]}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, dt.date):
        return {"time" if isinstance(value, dt.datetime) else "date": value.isoformat()}
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _unpacked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpacked(each) for each in value]
    if not isinstance(value, dict):
        return value
    if "tuple" in value:
        return tuple(_unpacked(each) for each in value["tuple"])
    if "dict" in value:
        return {_unpacked(key): _unpacked(each) for key, each in value["dict"]}
    for name, read in _READERS.items():
        if name in value:
            return read(value[name])
    if "record" in value:
        return _class_named(value["record"])(**_unpacked(value["fields"]))
    return _revive(_class_named(value["error"]), value["message"], _unpacked(value["fields"]))


_READERS: dict[str, Callable[[str], object]] = {
    "bytes": bytes.fromhex,
    "time": dt.datetime.fromisoformat,
    "date": dt.date.fromisoformat,
}


def _qualified_name(value: object) -> str:
    return f"{type(value).__module__}:{type(value).__name__}"


def _class_named(qualified: str) -> Any:
    """A class of the errors by its qualified name: an error, or a dataclass that errors carry."""
    module, _, name = qualified.partition(":")
    found = getattr(sys.modules.get(module), name, None) if module.startswith("omnigraph.errors.") else None
    if not isinstance(found, type) or not (issubclass(found, OmniGraphError) or is_dataclass(found)):
        raise LookupError(qualified)
    return found
