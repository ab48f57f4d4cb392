"""Errors about the input, put at the place a person knows: the row of a frame, the two lines that share an id."""

from __future__ import annotations

import json
import pickle
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from omnigraph.errors import InvalidInput
from omnigraph.spark.bulk.input.rejects import Reject
from omnigraph.spark.bulk.input.units import read_unit
from omnigraph.spark.bulk.pieces.writing import EDGE_IDS, READING, VALUES, VECTORS
from omnigraph.write.load.places import Place
from omnigraph.write.load.rows import repeated_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from omnigraph.errors import OmniGraphError
    from omnigraph.language.schema.catalog import Catalog
    from omnigraph.spark.bulk.input.units import Unit
    from omnigraph.spark.bulk.pieces.staged import StagedTable
    from omnigraph.world import World
    from omnigraph.write.load.batches import Batch

Error = TypeVar("Error", bound="OmniGraphError")
_ROW = re.compile(r", row (\d+):")


@dataclass(frozen=True)
class FrameUnit:
    """A partition of a frame: how many rows were before it, once that is known."""

    name: str
    first_row: int


@dataclass(frozen=True)
class Told:
    """An error that a task met, with its unit and rank."""

    unit: int
    rank: int
    table_key: str
    error: OmniGraphError


def told_errors(rows: Sequence[Mapping[str, Any]], units: Sequence[Unit | FrameUnit]) -> list[Told]:
    """The errors among the results of tasks, the first to tell first."""
    found = [
        Told(row["unit"], row["rows"], row["table"], _placed(pickle.loads(row["body"]), units[row["unit"]]))  # noqa: S301
        for row in rows
        if row["kind"] == "error"
    ]
    return sorted(found, key=lambda each: (each.rank, each.table_key, each.unit))


def told_rejects(rows: Sequence[Mapping[str, Any]], units: Sequence[Unit | FrameUnit]) -> list[tuple[int, Reject]]:
    """The rows that tasks have set aside, each with its unit."""
    found = [(row["unit"], Reject(**json.loads(row["body"]))) for row in rows if row["kind"] == "reject"]
    return [(unit, _moved(reject, units[unit])) for unit, reject in found]


def _moved(reject: Reject, unit: Unit | FrameUnit) -> Reject:
    if not isinstance(unit, FrameUnit):
        return reject
    number = reject.number + unit.first_row - 1
    start = f"{reject.source}, row "
    message = reject.message.replace(f"{start}{reject.number}:", f"{start}{number}:", 1)
    return replace(reject, number=number, message=message)


def reading_error(told: Sequence[Told]) -> OmniGraphError | None:
    """The error that ends a load before its rows are compared."""
    return next((each.error for each in told if each.rank in (READING, EDGE_IDS, VECTORS)), None)


def value_error(told: Sequence[Told]) -> OmniGraphError | None:
    """The first value that breaks a rule."""
    return next((each.error for each in told if each.rank == VALUES), None)


def repeated_error(
    table: StagedTable,
    row_id: str,
    rows: tuple[int, int],
    units: Sequence[Unit | FrameUnit],
    catalog: Catalog,
    world: World,
) -> OmniGraphError:
    """The error about an id that stands twice; only now the places are looked up, by reading those units again."""
    first, second = (place_of(table, order, units, catalog, world) for order in rows)
    return repeated_id(table.type, row_id, first, second)


def place_of(
    table: StagedTable, order: int, units: Sequence[Unit | FrameUnit], catalog: Catalog, world: World
) -> Place:
    """Where a row of a staged table came from, when no row was set aside."""
    piece = table.pieces[order >> 32]
    index = piece.first + piece.original(order & 0xFFFF_FFFF)
    unit = units[piece.unit]
    if isinstance(unit, FrameUnit):
        return Place(unit.name, "row", unit.first_row + index)
    return nth_place(read_unit(unit, catalog, world), table.type.table_key, index)


def nth_place(batches: Iterable[Batch], table_key: str, index: int) -> Place:
    """The place of the row of a type with this index."""
    for batch in batches:
        if batch.type.table_key == table_key:
            if index < len(batch):
                return batch.places[index]
            index -= len(batch)
    raise InvalidInput("the input changed while it was being loaded; load it again.")


def renumbered(error: Error, source: str, unit: str, number: int) -> Error:
    """The error at another number: a task that reads a part of something counts from 1."""
    start = f"{source}, {unit} " if source else f"{unit} "
    told, colon, rest = error.message.removeprefix(start).partition(":")
    if not error.message.startswith(start) or not told.isdigit():
        return error
    error.message = f"{start}{number}{colon}{rest}"
    error.args = (error.message,)
    if getattr(error, "row", None) is not None:
        error.__dict__["row"] = number
    return error


def _placed(error: OmniGraphError, unit: Unit | FrameUnit) -> OmniGraphError:
    """A task counts the rows of its partition from 1; the rows before it are added here."""
    if not isinstance(unit, FrameUnit):
        return error
    found = _ROW.match(error.message.removeprefix(unit.name))
    return error if found is None else renumbered(error, unit.name, "row", int(found[1]) + unit.first_row - 1)
