"""Canonical forms on which stored schemas depend: number text, sort orders, hashed ids, and JSON.

The JSON is byte for byte what the released program writes: its number text, its escapes, two spaces of indent or none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from omnigraph.catalog.catalog import Check, Range


def hash32(text: str) -> int:
    """FNV-1a of the UTF-8 bytes in 32 bits, never zero: the stored id of a type or property."""
    return _fnv1a(text, 0x811C9DC5, 0x01000193, 32) or 1


def hash64(text: str) -> int:
    """FNV-1a of the UTF-8 bytes in 64 bits: the directory of a table."""
    return _fnv1a(text, 0xCBF29CE484222325, 0x100000001B3, 64)


def _fnv1a(text: str, offset: int, prime: int, bits: int) -> int:
    value, mask = offset, (1 << bits) - 1
    for byte in text.encode():
        value = ((value ^ byte) * prime) & mask
    return value


def float_text(value: float) -> str:
    """The shortest digits that round-trip: with an exponent below 1e-5 and from 1e16 on, otherwise with a point."""
    digits, exponent = _digits(value)
    sign = "-" if value < 0 or str(value).startswith("-") else ""
    if value and not -5 <= exponent < 16:
        mantissa = digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "")
        return f"{sign}{mantissa}e{exponent}"
    return sign + _plain(digits, exponent, point=True)


def plain_float_text(value: float) -> str:
    """The shortest digits that round-trip, without an exponent, and without a point if integral."""
    digits, exponent = _digits(value)
    return ("-" if value < 0 else "") + _plain(digits, exponent, point=False)


def _digits(value: float) -> tuple[str, int]:
    """The significant digits without trailing zeros, and the power of ten of the first one."""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    leading = len(whole + fraction) - len(digits)
    power = len(whole) - 1 - leading + int(exponent or 0)
    return digits.rstrip("0") or "0", power if digits else 0


def _plain(digits: str, exponent: int, *, point: bool) -> str:
    if exponent < 0:
        return f"0.{'0' * (-exponent - 1)}{digits}"
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    fraction = digits[exponent + 1 :]
    return f"{whole}.{fraction}" if fraction else f"{whole}.0" if point else whole


def in_column_order(tuples: Iterable[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """Column tuples in stored order."""
    return tuple(sorted(tuples, key=",".join))


def in_range_order(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Ranges in stored order."""
    return tuple(sorted(ranges, key=range_text))


def in_check_order(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Checks in stored order."""
    return tuple(sorted(checks, key=lambda each: f"{each.property}:{each.pattern}"))


def range_text(each: Range) -> str:
    """The canonical text of a range; an integer bound differs from an equal float bound."""
    return f"{each.property}:{_bound_text(each.minimum)}:{_bound_text(each.maximum)}"


def _bound_text(bound: float | None) -> str:
    if bound is None:
        return "None"
    return f"Some(Float({float_text(bound)}))" if isinstance(bound, float) else f"Some(Integer({bound}))"


Json = str | int | float | bool | None | Sequence["Json"] | Mapping[str, "Json"]


def compact(value: Json) -> str:
    """JSON without white space; the form that is hashed."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{compact(key)}:{compact(each)}" for key, each in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ",".join(map(compact, value)) + "]"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return float_text(value) if isinstance(value, float) else str(value)


def pretty(value: Json, indent: str = "") -> str:
    """JSON with two spaces per level and no final line feed; the form of the files."""
    if isinstance(value, str) or not isinstance(value, Mapping | Sequence) or not value:
        return compact(value)
    inner = f"{indent}  "
    if isinstance(value, Mapping):
        lines = [f"{inner}{compact(key)}: {pretty(each, inner)}" for key, each in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    return "[\n" + ",\n".join(f"{inner}{pretty(each, inner)}" for each in value) + f"\n{indent}]"
