"""Source positions say where a row came from, for error messages: a line of a file, a row of a table, a record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from omnigraph.errors import InvalidRecord, ValueViolation

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    place: SourcePosition, rule: str, message: str, *, type_name: str | None = None, property_name: str | None = None
) -> InvalidRecord:
    """The error for the record at a source position."""
    return InvalidRecord(
        f"{place}: {message}",
        rule=rule,
        source=place.source,
        line=place.number if place.unit == "line" else None,
        row=None if place.unit == "line" else place.number,
        type_name=type_name,
        property_name=property_name,
    )


def refuse_cell(
    place: SourcePosition, rule: str, message: str, *, type_name: str, property_name: str, value: object = None
) -> InvalidRecord | ValueViolation:
    """The error for one value: it violates a rule of the schema (required, enum), or is not a value of the type."""
    texts = {
        "required": f"required property {type_name}.{property_name} has no value{message}",
        "enum": f"invalid enum value '{value}' for {type_name}.{property_name} ({message})",
    }
    if rule not in texts:
        text = f"{type_name}.{property_name}: {message}"
        return refuse(place, rule, text, type_name=type_name, property_name=property_name)
    return ValueViolation(
        f"{place}: {texts[rule]}", rule=rule, type_name=type_name, property_name=property_name, row_id=None, value=value
    )
