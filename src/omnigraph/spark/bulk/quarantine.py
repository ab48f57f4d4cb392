"""Bad rows set aside after they were compared with all others: found, noted, taken out, until the rest holds.

Taking a row out can make others bad, such as the edges of a node. Every round takes at least one row out, and the limit
of the policy ends it.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, cast

from omnigraph.errors import CardinalityViolation, InvalidInput, KeyConflict, OrphanEdge, UniqueViolation
from omnigraph.spark.bulk.input.chunks import chunks_of
from omnigraph.spark.bulk.input.input_errors import FrameUnit
from omnigraph.spark.bulk.input.rejects import Reject, reject_of, require_within
from omnigraph.spark.bulk.input.sifting import sifted
from omnigraph.spark.bulk.pieces.dropping import without
from omnigraph.spark.bulk.rules.offenders import Inquiry, Offender, Repeat
from omnigraph.spark.bulk.rules.questions import plan_questions
from omnigraph.spark.bulk.rules.suspects import find_suspects
from omnigraph.write.load.places import Place
from omnigraph.write.load.rows import repeated_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.errors import OmniGraphError
    from omnigraph.spark.bulk.input.reading import Reading, Written
    from omnigraph.spark.bulk.input.units import Unit
    from omnigraph.spark.bulk.pieces.staged import StagedTable
    from omnigraph.write.load.places import Unit as Counted
    from omnigraph.write.view import View


@dataclass(frozen=True)
class Sifted:
    """The rows that hold in one view, and those that were set aside for it."""

    written: Written
    rejects: tuple[Reject, ...]


def sift(reading: Reading, written: Written, view: View) -> Sifted:
    """Set rows aside until every rule holds. An error that no row of the input is to blame for is raised."""
    rejects = [reject for _, reject in written.rejects]
    tables, places = dict(written.tables), _Places(reading, written)
    mode: Literal["append", "overwrite"] = "overwrite" if reading.mode == "overwrite" else "append"
    while True:
        require_within(rejects, reading.policy.limit)
        bad = _bad_rows(reading, tables, view)
        if not bad:
            return Sifted(replace(written, tables=tables), tuple(rejects))
        _require_readable(tables, bad)
        rejects += [_reject(places, tables[key], order, why) for (key, order), why in bad.items()]
        for key in {key for key, _ in bad}:
            orders = [order for each, order in bad if each == key]
            tables[key] = without(reading.session, tables[key], orders, mode)


def _bad_rows(
    reading: Reading, tables: Mapping[str, StagedTable], view: View
) -> dict[tuple[str, int], Offender | Repeat]:
    """The rows to set aside next, by table and order, each with the first rule it breaks."""
    asked = plan_questions(reading.catalog, view, tables, reading.mode)
    suspects = find_suspects(reading.session, asked, reading.directory)
    if not suspects:
        return {}
    inquiry = Inquiry(reading.session, reading.catalog, reading.mode, tables, asked, suspects)
    bad: dict[tuple[str, int], Offender | Repeat] = {(each.table_key, each.second): each for each in inquiry.repeats()}
    for offender in inquiry.offenders():
        if not offender.orders:
            raise offender.error
        for order in offender.orders:
            bad.setdefault((offender.table_key, order), offender)
    return bad


def _require_readable(tables: Mapping[str, StagedTable], bad: Mapping[tuple[str, int], Offender | Repeat]) -> None:
    """Rows with blobs cannot be written again without the input, so one of them that is bad fails the load."""
    for (key, _), why in bad.items():
        if tables[key].has_blobs:
            told = why.error.message if isinstance(why, Offender) else f"the id {why.row_id!r} stands twice"
            raise InvalidInput(f"{tables[key].type.name} has blobs, so this row cannot be set aside: {told}")


def _reject(places: _Places, table: StagedTable, order: int, why: Offender | Repeat) -> Reject:
    place = places.of(table, order)
    if isinstance(why, Offender):
        return reject_of(why.error, place, _value(why.error))
    error = repeated_id(table.type, why.row_id, places.of(table, why.first), place)
    return reject_of(error, place, why.row_id)


@dataclass(frozen=True)
class _Places:
    """Where rows came from. A unit is read again for it, once."""

    reading: Reading
    written: Written
    known: dict[tuple[int, str], array[int]] = field(default_factory=dict)

    def of(self, table: StagedTable, order: int) -> Place:
        """The place of a row of a staged table."""
        piece = table.pieces[order >> 32]
        index = piece.first + piece.original(order & 0xFFFF_FFFF)
        unit = self.written.units[piece.unit]
        if isinstance(unit, FrameUnit):
            return Place(unit.name, "row", self._nth_good(index + unit.first_row, piece.unit))
        forms = {"graph records": "record", "rows": "record", "graph text": "line"}
        kind = "line" if unit.split is not None else forms.get(unit.input.form, "row")
        numbers = self._numbers(piece.unit, unit, table.type.table_key)
        if index >= len(numbers):
            raise InvalidInput(f"{unit.input.name} changed while it was being loaded; load it again.")
        return Place(unit.input.name, cast("Counted", kind), numbers[index])

    def _nth_good(self, number: int, unit: int) -> int:
        """The number of a row of a frame, counting those that its task has set aside."""
        for bad in sorted(reject.number for at, reject in self.written.rejects if at == unit):
            if bad > number:
                break
            number += 1
        return number

    def _numbers(self, at: int, unit: Unit, table_key: str) -> array[int]:
        if (at, table_key) not in self.known:
            numbers = self.known[at, table_key] = array("q")
            catalog, world = self.reading.catalog, self.reading.world
            for chunk in chunks_of(unit, self.reading.readable, world):
                for batch, _ in sifted(catalog, chunk, [], world):
                    if batch.type.table_key == table_key:
                        numbers.extend(batch.places.numbers)
        return self.known[at, table_key]


def _value(error: OmniGraphError) -> str:
    match error:
        case UniqueViolation():
            return ", ".join(map(str, error.values))
        case OrphanEdge():
            return str(error.node_id)
        case CardinalityViolation():
            return error.source_id
        case KeyConflict():
            return str(error.row_id)
    return ""
