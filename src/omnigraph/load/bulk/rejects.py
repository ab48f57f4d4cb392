"""Rejected rows of a bulk load, and errors of tasks located at their source positions.

A reject records where the row was, which rule it violated and its text. Tasks count rows of a Spark partition from 1;
the driver adds the rows before the partition, so that errors name the row of the frame or the two lines that share an
id.
"""

from __future__ import annotations

import io
import json
import pickle
import re
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import obstore
import pyarrow as pa
from pyarrow import parquet

from omnigraph.errors import ConstraintViolation, InvalidInput, InvalidRecord, ValueViolation
from omnigraph.kernels.row_address import staged_row
from omnigraph.load.bulk.units import read_unit
from omnigraph.load.bulk.write import EDGE_IDS, READING, VALUES, VECTORS
from omnigraph.load.files import is_remote
from omnigraph.load.rows import repeated_id
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.objects.remote import open_remote_objects
from omnigraph.tasks.runner import LONG, TEXT
from omnigraph.values.columns import SourcePosition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.errors import OmniGraphError
    from omnigraph.load.bulk.units import Unit
    from omnigraph.tasks.staged_rows import StagedRows
    from omnigraph.values.batches import Batch
    from omnigraph.world import World

REJECTS = pa.schema(
    [
        ("source", TEXT),
        ("unit", TEXT),
        ("number", LONG),
        ("type", TEXT),
        ("property", TEXT),
        ("rule", TEXT),
        ("value", TEXT),
        ("message", TEXT),
    ]
)


@dataclass(frozen=True)
class Reject:
    """One rejected row. `number` counts `unit`s (line, row or record) of the source from 1; `value` is its text."""

    source: str
    unit: str
    number: int
    type: str | None
    property: str | None
    rule: str
    value: str
    message: str


def reject_of(error: OmniGraphError, position: SourcePosition, value: str) -> Reject:
    """The reject for a row that raised an error."""
    located = error if isinstance(error, InvalidRecord | ConstraintViolation) else None
    return Reject(
        position.source,
        position.unit,
        position.number,
        located.type_name if located else None,
        located.property_name if located else None,
        error.rule if isinstance(error, InvalidRecord | ValueViolation) else error.code,
        value,
        error.message,
    )


def counts_of(rejects: Sequence[Reject]) -> dict[str, int]:
    """The number of rejects by rule."""
    return dict(sorted(Counter(each.rule for each in rejects).items()))


def require_within(rejects: Sequence[Reject], limit: int) -> None:
    """Raise if there are more rejects than the policy allows."""
    if len(rejects) > limit:
        first = min(rejects, key=lambda each: (each.source, each.number))
        raise InvalidInput(
            f"more than {limit:,} rows cannot be loaded, which is what may be set aside. The first: {first.message}"
        )


def write_rejects(rejects: Sequence[Reject], path: str, world: World) -> None:
    """Write the rejects to a Parquet file, sorted by source and position. Without rejects the file has no rows."""
    ordered = sorted(rejects, key=lambda each: (each.source, each.number))
    sink = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist([asdict(each) for each in ordered], schema=REJECTS), sink)
    if not is_remote(path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(sink.getvalue())
        return
    directory, _, name = path.rpartition("/")
    obstore.put(open_remote_objects(parse_location(directory, world), world).store, name, sink.getvalue())


Error = TypeVar("Error", bound="OmniGraphError")
_ROW = re.compile(r", row (\d+):")


@dataclass(frozen=True)
class FrameUnit:
    """A partition of a Spark frame, with the number of its first row in the frame."""

    name: str
    first_row: int


@dataclass(frozen=True)
class InputError:
    """An error that a task reported, with its unit and rank."""

    unit: int
    rank: int
    table_key: str
    error: OmniGraphError


def task_errors(rows: Sequence[Mapping[str, Any]], units: Sequence[Unit | FrameUnit]) -> list[InputError]:
    """The errors in the results of tasks, in the order in which they are reported."""
    errors = []
    for row in rows:
        if row["kind"] == "error":
            error = _renumbered_error(pickle.loads(row["body"]), units[row["unit"]])  # noqa: S301
            errors.append(InputError(row["unit"], row["rows"], row["table"], error))
    return sorted(errors, key=lambda each: (each.rank, each.table_key, each.unit))


def task_rejects(rows: Sequence[Mapping[str, Any]], units: Sequence[Unit | FrameUnit]) -> list[tuple[int, Reject]]:
    """The rejects in the results of tasks, each with its unit."""
    found = [(row["unit"], Reject(**json.loads(row["body"]))) for row in rows if row["kind"] == "reject"]
    return [(unit, _renumbered_reject(reject, units[unit])) for unit, reject in found]


def _renumbered_reject(reject: Reject, unit: Unit | FrameUnit) -> Reject:
    if not isinstance(unit, FrameUnit):
        return reject
    number = reject.number + unit.first_row - 1
    start = f"{reject.source}, row "
    message = reject.message.replace(f"{start}{reject.number}:", f"{start}{number}:", 1)
    return replace(reject, number=number, message=message)


def reading_error(errors: Sequence[InputError]) -> OmniGraphError | None:
    """The error that fails the load before rules across rows are checked."""
    return next((each.error for each in errors if each.rank in (READING, EDGE_IDS, VECTORS)), None)


def value_error(errors: Sequence[InputError]) -> OmniGraphError | None:
    """The first value violation."""
    return next((each.error for each in errors if each.rank == VALUES), None)


def repeated_error(
    table: StagedRows,
    row_id: str,
    rows: tuple[int, int],
    units: Sequence[Unit | FrameUnit],
    catalog: Catalog,
    world: World,
) -> OmniGraphError:
    """The error for an id that occurs twice. Only this path reads units again, to find the source positions."""
    first, second = (source_position_of(table, order, units, catalog, world) for order in rows)
    return repeated_id(table.type, row_id, first, second)


def source_position_of(
    table: StagedRows, order: int, units: Sequence[Unit | FrameUnit], catalog: Catalog, world: World
) -> SourcePosition:
    """The source position of a row of a staged table, provided that no row was set aside."""
    number, offset = staged_row(order)
    fragment = table.fragments[number]
    index = fragment.first + fragment.original(offset)
    unit = units[fragment.unit]
    if isinstance(unit, FrameUnit):
        return SourcePosition(unit.name, "row", unit.first_row + index)
    return nth_position(read_unit(unit, catalog, world), table.type.table_key, index)


def nth_position(batches: Iterable[Batch], table_key: str, index: int) -> SourcePosition:
    """The source position of the index-th row of a table."""
    for batch in batches:
        if batch.type.table_key == table_key:
            if index < len(batch):
                return batch.positions[index]
            index -= len(batch)
    raise InvalidInput("the input changed while it was being loaded; load it again.")


def renumbered(error: Error, source: str, unit: str, number: int) -> Error:
    """Replace the position number in an error; a task that reads part of a source counts from 1."""
    start = f"{source}, {unit} " if source else f"{unit} "
    old_number, colon, rest = error.message.removeprefix(start).partition(":")
    if not error.message.startswith(start) or not old_number.isdigit():
        return error
    error.message = f"{start}{number}{colon}{rest}"
    error.args = (error.message,)
    if getattr(error, "row", None) is not None:
        error.__dict__["row"] = number
    return error


def _renumbered_error(error: OmniGraphError, unit: Unit | FrameUnit) -> OmniGraphError:
    """Add the number of rows before the partition, because its task counts rows from 1."""
    if not isinstance(unit, FrameUnit):
        return error
    found = _ROW.match(error.message.removeprefix(unit.name))
    return error if found is None else renumbered(error, unit.name, "row", int(found[1]) + unit.first_row - 1)
