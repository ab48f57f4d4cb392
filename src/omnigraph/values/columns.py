"""Converts many values to one Arrow column of the declared type, or says which one is wrong, why, and where it stood.

Values that all have the expected Python type become a column at once. Only when that fails is each value checked by
`scalars.stored_value`, which decides. Source positions (a line of a file, a row of a table, a record) are for messages.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.catalog import FLOATS, INTEGERS
from omnigraph.errors import InvalidRecord, ValueViolation
from omnigraph.kernels.arrays import physical_type
from omnigraph.values.scalars import WrongValue, stored_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.catalog.catalog import PropertyType

    Column = pa.Array[Any]

_NONE = type(None)
_PYTHON_TYPES: dict[str, set[type]] = {
    "String": {str},
    "Bool": {bool},
    **{name: {int} for name in INTEGERS},
    **{name: {int, float} for name in FLOATS},
    "Vector": {int, float},
}
# Text of this form means the same to Arrow as to `parse_datetime`; every other form is left to the latter.
_PLAIN_TIMESTAMP = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{3})?Z$"
_FIRST_DAY = -719_162  # 0001-01-01: Arrow also accepts the year 0


class BadCell(ValueError):
    """A value of a column that does not fit its type, with its index."""

    def __init__(self, index: int, rule: str, message: str, value: object = None) -> None:
        super().__init__(message)
        self.index = index
        self.rule = rule
        self.value = value

    def at(self, positions: SourcePositions, type_name: str, property_name: str) -> InvalidRecord | ValueViolation:
        """The user-facing error, with the source position of the value."""
        return refuse_cell(
            positions[self.index],
            self.rule,
            str(self),
            type_name=type_name,
            property_name=property_name,
            value=self.value,
        )


def column_of(declared: PropertyType, values: Sequence[object], *, lenient: bool = False) -> Column:
    """Convert values to a column. Raises `BadCell` for the first that does not fit.

    Lenient: a scalar of another JSON type than the declared one becomes null.
    """
    column = _at_once(declared, values)
    if column is None:
        column = _one_by_one(declared, values, lenient=lenient)
    return accepted(declared, column)


def accepted(declared: PropertyType, column: Column) -> Column:
    """Check the nulls and enum values of a column of the declared Arrow type. Raises `BadCell`."""
    if column.null_count and not declared.nullable:
        raise BadCell(first_true(column.is_null()), "required", "")
    if declared.enum_values is not None:
        allowed = pc.is_in(column, value_set=pa.array([*declared.enum_values, None], pa.string()))
        if not pc.all(allowed, min_count=0).as_py():
            index = first_true(pc.invert(allowed))
            raise BadCell(index, "enum", f"expected: {', '.join(declared.enum_values)}", column[index].as_py())
    return column


def first_true(mask: Any) -> int:
    """The index of the first true value."""
    return int(pc.index(mask, value=True).as_py())


def _at_once(declared: PropertyType, values: Sequence[object]) -> Column | None:
    """The column when every value plainly has the declared type, or None when each value must be checked."""
    nested = declared.is_list or declared.dimensions is not None
    kinds = set(map(type, values)) - {_NONE}
    if nested:
        if not kinds <= {list}:
            return None
        lists: Any = (each for each in values if each is not None)
        kinds = set(map(type, chain.from_iterable(lists)))
    try:
        if kinds <= _PYTHON_TYPES.get(declared.scalar, set()):
            return _checked_floats(declared, pa.array(values, arrow_type(declared)))
        if not nested and declared.scalar in ("Date", "DateTime"):
            return _temporal(declared, values, kinds)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        return None
    return None


def _checked_floats(declared: PropertyType, column: Column) -> Column | None:
    if declared.scalar not in FLOATS and declared.dimensions is None:
        return column
    flat: Any = column
    if declared.is_list or declared.dimensions is not None:
        flat = flat.flatten()
    return column if pc.all(pc.is_finite(flat), min_count=0).as_py() else None


def _temporal(declared: PropertyType, values: Sequence[object], kinds: set[type]) -> Column | None:
    if kinds <= {int}:
        return stored_column(declared, values)
    if not kinds <= {str}:
        return None
    return text_as_date(pa.array(values, pa.string())) if declared.scalar == "Date" else text_as_timestamp(values)


def text_as_date(texts: Column) -> Column | None:
    """Parse ISO text as days, or return None when one of the texts has another form."""
    days = texts.cast(pa.date32())
    earliest = pc.min(days.cast(pa.int32())).as_py()
    return days if earliest is None or earliest >= _FIRST_DAY else None


def text_as_timestamp(values: Sequence[object] | Column) -> Column | None:
    """Parse ISO text in UTC as milliseconds, or return None when one of the texts has another form."""
    texts = values if isinstance(values, pa.Array) else pa.array(values, pa.string())
    if not pc.all(pc.match_substring_regex(texts, _PLAIN_TIMESTAMP), min_count=0).as_py():
        return None
    milliseconds = texts.cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    earliest = pc.min(milliseconds).as_py()
    if earliest is not None and earliest < _FIRST_DAY * 86_400_000:
        return None
    return milliseconds.cast(pa.date64())


def _one_by_one(declared: PropertyType, values: Sequence[object], *, lenient: bool) -> Column:
    scalar = not declared.is_list and declared.scalar not in ("Vector", "Blob")
    # Enum values are checked on the whole column.
    unlimited = replace(declared, enum_values=None)
    stored: list[object] = []
    for index, value in enumerate(values):
        try:
            stored.append(stored_value(unlimited, value))
        except WrongValue as wrong:
            if wrong.rule == "required":
                raise BadCell(index, "required", "") from None
            if not (lenient and scalar and wrong.rule == "type"):
                raise BadCell(index, wrong.rule, str(wrong), value) from None
            if not declared.nullable:
                raise BadCell(index, "required", f": {wrong}", value) from None
            stored.append(None)
    return stored_column(declared, stored)


def stored_column(declared: PropertyType, stored: Sequence[object]) -> Column:
    """Make a column of values that `stored_value` returned."""
    kind = arrow_type(declared)
    # Arrow makes dates from integers only by a cast.
    return pa.array(stored, physical_type(kind)).cast(kind)


Unit = Literal["line", "row", "record"]


@dataclass(frozen=True)
class SourcePosition:
    """One line, row or record of a source, counted from 1. `source` is empty for rows that were passed in directly."""

    source: str
    unit: Unit
    number: int

    def __str__(self) -> str:
        here = f"{self.unit} {self.number}"
        return f"{self.source}, {here}" if self.source else here


@dataclass(frozen=True)
class SourcePositions:
    """The source positions of the rows of a batch, in order."""

    source: str
    unit: Unit
    numbers: Sequence[int]

    def __getitem__(self, index: int) -> SourcePosition:
        return SourcePosition(self.source, self.unit, int(self.numbers[index]))


def refuse(
    position: SourcePosition, rule: str, message: str, *, type_name: str | None = None, property_name: str | None = None
) -> InvalidRecord:
    """The error for the record at a source position."""
    return InvalidRecord(
        f"{position}: {message}",
        rule=rule,
        source=position.source,
        line=position.number if position.unit == "line" else None,
        row=None if position.unit == "line" else position.number,
        type_name=type_name,
        property_name=property_name,
    )


def refuse_cell(
    position: SourcePosition, rule: str, message: str, *, type_name: str, property_name: str, value: object = None
) -> InvalidRecord | ValueViolation:
    """The error for one value: it violates a rule of the schema (required, enum), or is not a value of the type."""
    if rule not in ("required", "enum"):
        text = f"{type_name}.{property_name}: {message}"
        return refuse(position, rule, text, type_name=type_name, property_name=property_name)
    text = f"required property {type_name}.{property_name} has no value{message}"
    if rule == "enum":
        text = f"invalid enum value '{value}' for {type_name}.{property_name} ({message})"
    return ValueViolation(
        f"{position}: {text}", rule=rule, type_name=type_name, property_name=property_name, row_id=None, value=value
    )
