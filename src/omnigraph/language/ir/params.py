"""Parameter values: from JSON or Python to the declared types. Missing, unknown, null and wrong values are all refused.

Codes: P1 missing, P2 unknown, P3 null where null is not allowed, P4 wrong type or out of range, P5 a bound below zero.
"""

from __future__ import annotations

import math
import re
import struct
from datetime import date, datetime
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, cast

from omnigraph.catalog.catalog import FLOATS, PropertyType
from omnigraph.errors import Diagnostic, QueryError
from omnigraph.errors.inputs import suggestion
from omnigraph.errors.root import display_text
from omnigraph.language.ir.expressions import ParameterValue
from omnigraph.language.ir.query import CheckedQuery, Parameter
from omnigraph.language.ir.types import INTEGER_RANGES, in_utc, parse_date, parse_datetime, python_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from omnigraph.language.ir.query import CheckedMutation

Mode = Literal["standard", "javascript"]
# Beyond this a JavaScript number has already lost digits on its way here.
_EXACT_IN_JAVASCRIPT = 2**53 - 1
_DECIMAL = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)


def bind_params(
    checked: CheckedQuery | CheckedMutation, values: Mapping[str, object] | None, mode: Mode = "standard"
) -> dict[str, object]:
    """A value of the right Python type for every declared parameter, None for an omitted nullable one.

    Dates become `date`, instants aware `datetime` in UTC, lists and vectors lists. In JavaScript mode large integers
    must come as strings. Raises `QueryError` with everything that is wrong.
    """
    given = dict(values or {})
    declared = {each.name: each for each in checked.parameters}
    findings = [_finding("P2", name, _unknown(checked, name, declared)) for name in given if name not in declared]
    bound: dict[str, object] = {}
    for name, parameter in declared.items():
        try:
            bound[name] = _bind(parameter, given, mode)
        except _Refused as refused:
            findings.append(_finding(refused.code, name, str(refused)))
    findings.extend(_below_zero(checked, bound))
    if findings:
        raise QueryError(tuple(findings))
    return bound


class _Refused(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def _finding(code: str, name: str, message: str) -> Diagnostic:
    text = f"param '{name}': {message}"
    return Diagnostic(message=text, code=code, source_name="<params>", excerpt=text)


def _unknown(checked: CheckedQuery | CheckedMutation, name: str, declared: Mapping[str, Parameter]) -> str:
    return f"query '{checked.name}' declares no such parameter{suggestion(name, declared)}"


def _bind(parameter: Parameter, given: Mapping[str, object], mode: Mode) -> object:
    if parameter.name not in given and not parameter.type.nullable:
        raise _Refused("P1", f"parameter not provided, and {parameter.type} is required")
    value = given.get(parameter.name)
    if value is not None:
        return _convert(value, parameter.type, mode)
    if not parameter.type.nullable:
        raise _Refused("P3", f"{parameter.type} cannot be null")
    return None


def _below_zero(checked: CheckedQuery | CheckedMutation, bound: Mapping[str, object]) -> list[Diagnostic]:
    if not isinstance(checked, CheckedQuery):
        return []
    bounds = (("limit", checked.limit), ("offset", checked.offset))
    return [
        _finding("P5", bound_by.name, f"{kind} cannot be below zero")
        for kind, bound_by in bounds
        if isinstance(bound_by, ParameterValue) and _is_negative(bound.get(bound_by.name))
    ]


def _is_negative(value: object) -> bool:
    return isinstance(value, int) and value < 0


# -- conversions -------------------------------------------------------------------------------------------------------


def _convert(value: object, to: PropertyType, mode: Mode) -> object:
    value = python_value(value)
    if to.scalar == "Vector":
        return _vector(value, to)
    if to.is_list:
        item = PropertyType(to.scalar)
        return [_convert_item(each, item, mode) for each in _items(value, to)]
    if to.scalar in INTEGER_RANGES:
        return _integer(value, to, mode)
    return _CONVERSIONS[to.scalar](value, to)


def _items(value: object, to: PropertyType) -> list[object]:
    if not isinstance(value, list | tuple):
        raise _wrong(value, to)
    return list(value)


def _convert_item(value: object, to: PropertyType, mode: Mode) -> object:
    if value is None:
        raise _Refused("P3", "a list cannot hold null")
    return _convert(value, to, mode)


def _vector(value: object, to: PropertyType) -> list[float]:
    items = _items(value, to)
    if len(items) != to.dimensions:
        raise _Refused("P4", f"{to} expects {to.dimensions} dimensions, got {len(items)}")
    if _are_plain(items):
        return cast("list[float]", items)
    try:
        return [_float(each, PropertyType("F32")) for each in items]
    except _Refused as refused:
        raise _Refused("P4", f"vector elements must be numeric: {refused}") from None


def _are_plain(items: list[object]) -> bool:
    """Whether all are floats that fit into 32 bits, as most vectors are: found out at once, not one by one."""
    if not all(type(each) is float for each in items):
        return False
    try:
        struct.pack(f"<{len(items)}f", *items)
    except OverflowError:
        return False
    return math.isfinite(sum(cast("list[float]", items)))


def _integer(value: object, to: PropertyType, mode: Mode) -> int:
    if isinstance(value, bool):
        raise _wrong(value, to)
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        number = int(value)
    elif isinstance(value, Integral):
        number = int(value)
        if mode == "javascript" and abs(number) > _EXACT_IN_JAVASCRIPT:
            raise _Refused("P4", f"{number} is beyond the integers that JavaScript keeps exactly: pass it as a string")
    else:
        raise _wrong(value, to)
    if number not in INTEGER_RANGES[to.scalar]:
        raise _Refused("P4", f"{number} is out of range for {to.scalar}")
    return number


def _float(value: object, to: PropertyType) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise _wrong(value, to)
    try:
        number = float(value)
        if to.scalar == "F32":
            struct.pack("<f", number)
    except OverflowError:
        raise _Refused("P4", f"{value} is out of range for {to.scalar}") from None
    if not math.isfinite(number):
        raise _Refused("P4", f"{number} is not a finite number")
    return number


def _string(value: object, to: PropertyType) -> object:
    if not isinstance(value, str):
        raise _wrong(value, to)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _Refused("P4", f"{display_text(value)} is not valid Unicode: {error.reason}") from None
    return value


def _bool(value: object, to: PropertyType) -> object:
    if not isinstance(value, bool):
        raise _wrong(value, to)
    return value


def _date(value: object, to: PropertyType) -> object:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    return _parsed(value, to, parse_date)


def _datetime(value: object, to: PropertyType) -> object:
    return in_utc(value) if isinstance(value, datetime) else _parsed(value, to, parse_datetime)


def _parsed(value: object, to: PropertyType, parse: Callable[[str], object]) -> object:
    if not isinstance(value, str):
        raise _wrong(value, to)
    try:
        return parse(value)
    except ValueError as error:
        raise _Refused("P4", str(error)) from None


def _blob(value: object, to: PropertyType) -> object:
    if not isinstance(value, str | bytes):
        raise _wrong(value, to)
    return value


def _wrong(value: object, to: PropertyType) -> _Refused:
    return _Refused("P4", f"expected {to}, got {display_text(value)}")


_CONVERSIONS: dict[str, Callable[[Any, PropertyType], object]] = {
    "String": _string,
    "Bool": _bool,
    "Date": _date,
    "DateTime": _datetime,
    "Blob": _blob,
    **dict.fromkeys(FLOATS, _float),
}
