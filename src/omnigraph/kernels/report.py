"""`Report`: what the API returns prints as one line, and converts to a dictionary, to JSON and to HTML the same way."""

from __future__ import annotations

import datetime as dt
import html
import json
import math
import os
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

_EXACT = 2**53 - 1
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Report:
    """A dataclass that a call returns. Fields that begin with an underscore are left out of everything."""

    def to_dict(self) -> dict[str, Any]:
        """Its values as JSON has them: times in ISO 8601, durations in seconds, tuples as lists."""
        return _fields(self)

    def to_json(self) -> str:
        """`to_dict()` as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, separators=(",", ":"), allow_nan=False)

    def _summary(self) -> str:
        """What follows the name of the class in its `repr`: one line, with numbers."""
        return ", ".join(f"{name}={value!r}" for name, value in _fields(self).items() if is_scalar(value))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._summary()}>"

    def _repr_html_(self) -> str:
        if type(self).__str__ is not object.__str__:
            return f"<pre>{html.escape(str(self))}</pre>"
        return html_rows(("", ""), [(name, _display_text(value)) for name, value in self.to_dict().items()])


def is_scalar(value: object) -> bool:
    """Whether a value of JSON is neither a list nor an object."""
    return not isinstance(value, dict | list)


def html_rows(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    """A small HTML table; without a head when all its names are empty."""
    names = "".join(f"<th>{html.escape(each)}</th>" for each in head)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>{f'<thead><tr>{names}</tr></thead>' if any(head) else ''}<tbody>{body}</tbody></table>"


def json_value(value: Any) -> Any:
    """A Python value as JSON can represent it; large integers become text."""
    if isinstance(value, dt.datetime):
        return timestamp_text(value)
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    if isinstance(value, Report):
        return value.to_dict()
    if isinstance(value, Mapping) and value.keys() == {"data", "uri"}:
        # A blob, in the form that a load reads.
        return value["uri"] if value["data"] is None else f"base64:{b64encode(value['data']).decode()}"
    if isinstance(value, Mapping):
        return {str(name): json_value(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [json_value(each) for each in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return _fields(value) if is_dataclass(value) else plain(value, large_integers_as_text=True)


def plain(value: Any, large_integers_as_text: bool) -> Any:
    """A value of Arrow's `to_pylist` as JSON can represent it."""
    match value:
        case dict():
            return {name: plain(each, large_integers_as_text) for name, each in value.items()}
        case list():
            return [plain(each, large_integers_as_text) for each in value]
        case bool():
            return value
        case int() if large_integers_as_text and abs(value) > _EXACT:
            return str(value)
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case dt.date():
            return value.isoformat()
        case _:
            return value


def timestamp_text(timestamp: dt.datetime) -> str:
    """A time in UTC to the millisecond, or to the microsecond where it has some."""
    text = timestamp.astimezone(dt.UTC).replace(tzinfo=None)
    return text.isoformat(timespec="microseconds" if timestamp.microsecond % 1_000 else "milliseconds") + "Z"


def _fields(report: Any) -> dict[str, Any]:
    names = [each.name for each in fields(report) if each.name[0] != "_"]
    # Times are stored in microseconds and reported as timestamps.
    reported = {"created_at" if name == "created_us" else name: None for name in names}
    return {name: json_value(getattr(report, name)) for name in reported}


def _display_text(value: Any) -> str:
    return str(value) if is_scalar(value) else json.dumps(value, ensure_ascii=False)
