"""The texts of literals and of parameter values as Python values: strings, numbers, dates, instants."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta

INTEGER_RANGES = {
    "I32": range(-(2**31), 2**31),
    "I64": range(-(2**63), 2**63),
    "U32": range(2**32),
    # The store keeps U64, but every text form of a value goes through a signed 64-bit integer.
    "U64": range(2**63),
}
_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPE = re.compile(r"\\([\s\S])")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_DATETIME = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2})(?:[Tt ](?P<time>\d{2}:\d{2}(?::\d{2})?)(?P<fraction>\.\d{1,9})?)?"
    r"(?P<zone>[Zz]|[+-]\d{2}:?\d{2})?",
    re.ASCII,
)


def decode_string(quoted: str) -> str:
    """The text of a quoted string. ValueError names an escape that does not exist."""
    return _ESCAPE.sub(_decode_escape, quoted[1:-1])


def _decode_escape(found: re.Match[str]) -> str:
    if (plain := _ESCAPES.get(found[1])) is None:
        raise ValueError(rf"unsupported escape sequence \{found[1]}: only \" \\ \n \r \t are known")
    return plain


def parse_float(text: str) -> float:
    """A finite float."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large for a 64-bit float")
    return value


def parse_date(text: str) -> date:
    """`YYYY-MM-DD`."""
    if not _DATE.fullmatch(text):
        raise ValueError(f"'{text}' is not a date: write YYYY-MM-DD")
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"'{text}' is not a date: {error}") from error


def parse_datetime(text: str) -> datetime:
    """An RFC 3339 instant in UTC, cut to milliseconds as it is stored; no zone means UTC, no time means midnight."""
    if not (parts := _DATETIME.fullmatch(text)):
        raise ValueError(f"'{text}' is not an instant: write YYYY-MM-DDTHH:MM:SSZ")
    zone = (parts["zone"] or "Z").upper()
    try:
        whole = datetime.fromisoformat(f"{parts['date']}T{parts['time'] or '00:00'}{'+00:00' if zone == 'Z' else zone}")
        return whole.astimezone(UTC) + _fraction(parts["fraction"])
    except (ValueError, OverflowError) as error:
        raise ValueError(f"'{text}' is not an instant: {error}") from error


def in_utc(value: datetime) -> datetime:
    """A Python datetime as an instant; a naive one is taken as UTC."""
    aware = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return aware.replace(microsecond=aware.microsecond // 1_000 * 1_000)


def _fraction(text: str | None) -> timedelta:
    return timedelta(milliseconds=int(text[1:4].ljust(3, "0"))) if text else timedelta()
