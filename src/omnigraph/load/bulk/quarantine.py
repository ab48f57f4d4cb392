"""Sets rows aside that violate rules across rows, after all rows were written as fragments.

Violating rows are found, recorded as rejects and removed by rewriting their fragments, until no violation is left.
Removing a row can make others invalid, such as the edges of a node. Every round removes at least one row and the
policy's limit bounds the total, so the loop terminates.
"""

from __future__ import annotations

import json
from array import array
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
import pyarrow as pa

from omnigraph.errors import CardinalityViolation, InvalidInput, KeyConflict, OrphanEdge, UniqueViolation
from omnigraph.kernels.equality import row_numbers
from omnigraph.kernels.row_address import staged_row
from omnigraph.load.bulk.bisect import chunks_of, valid_rows
from omnigraph.load.bulk.rejects import FrameUnit, Reject, reject_of, require_within
from omnigraph.load.rows import repeated_id, rows_schema
from omnigraph.storage.lance.data_files import write_rows
from omnigraph.tasks.runner import INT, TEXT
from omnigraph.tasks.staged_rows import FragmentFile, StagedRows, fragment_files
from omnigraph.transaction.constraints.exchange.candidates import CandidateSearch
from omnigraph.transaction.constraints.exchange.plan import plan_checks
from omnigraph.transaction.constraints.exchange.violations import DuplicateRow, RowViolation, ViolationSearch
from omnigraph.values.columns import SourcePosition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from omnigraph.errors import OmniGraphError
    from omnigraph.load.bulk.read import InputRead, Written
    from omnigraph.load.bulk.units import Unit
    from omnigraph.storage.lance.data_files import Mode
    from omnigraph.tasks.runner import TaskRunner
    from omnigraph.transaction.read_view import ReadView
    from omnigraph.values.columns import Unit as Counted

_WRITTEN = pa.schema([("number", INT), ("fragment", TEXT)])


def drop_rows(runner: TaskRunner, table: StagedRows, orders: Collection[int], mode: Mode) -> StagedRows:
    """Remove rows by their order (`staged_order`). Only fragments with removed rows are rewritten."""
    dropped: dict[int, list[int]] = {}
    for order in sorted(orders):
        number, offset = staged_row(order)
        dropped.setdefault(number, []).append(offset)
    files = [each for each in fragment_files(table) if each.number in dropped]
    uri, schema = table.location.child(table.directory), rows_schema(table.type)

    def work(file: FragmentFile) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([[file.number], [_rest(file, dropped[file.number], uri, schema, mode)]], schema=_WRITTEN)

    results = runner.map(files, work, _WRITTEN).collect()
    fragments = list(table.fragments)
    for each in results.to_pylist():
        fragment, offsets = fragments[each["number"]], dropped[each["number"]]
        fragments[each["number"]] = replace(
            fragment,
            rows=fragment.rows - len(offsets),
            fragment=each["fragment"],
            dropped=tuple(sorted([*fragment.dropped, *(fragment.original(offset) for offset in offsets)])),
        )
    return replace(table, fragments=tuple(each for each in fragments if each.rows), hash_runs={})


def _rest(file: FragmentFile, dropped: list[int], uri: str, schema: pa.Schema, mode: Mode) -> str:
    whole = pa.Table.from_batches(list(file.read(None)))
    retained = np.setdiff1d(np.arange(whole.num_rows), dropped)
    if not len(retained):
        return ""
    rows = whole.take(row_numbers(retained))
    stored = pa.Table.from_arrays([rows.column(each.name) for each in schema], schema=schema).combine_chunks()
    options = None if file.options is None else dict(file.options)
    (written,) = write_rows(iter(stored.to_batches()), uri, options, schema, len(stored), mode)
    return json.dumps(written.to_json())


@dataclass(frozen=True)
class Quarantined:
    """The rows that are valid in one read view, and the rejected ones."""

    written: Written
    rejects: tuple[Reject, ...]


def quarantine_violations(reading: InputRead, written: Written, view: ReadView) -> Quarantined:
    """Set rows aside until every rule holds. Raises a violation that no row of the input caused."""
    rejects = [reject for _, reject in written.rejects]
    tables, positions = dict(written.tables), _SourcePositions(reading, written)
    mode: Literal["append", "overwrite"] = "overwrite" if reading.mode == "overwrite" else "append"
    while True:
        require_within(rejects, reading.policy.limit)
        bad = _bad_rows(reading, tables, view)
        if not bad:
            return Quarantined(replace(written, tables=tables), tuple(rejects))
        _require_readable(tables, bad)
        rejects += [_reject(positions, tables[key], order, why) for (key, order), why in bad.items()]
        for key in {key for key, _ in bad}:
            orders = [order for each, order in bad if each == key]
            tables[key] = drop_rows(reading.runner, tables[key], orders, mode)


def _bad_rows(
    reading: InputRead, tables: Mapping[str, StagedRows], view: ReadView
) -> dict[tuple[str, int], RowViolation | DuplicateRow]:
    """The rows to set aside in this round, by table and order, each with the first rule that it violates."""
    plan = plan_checks(reading.catalog, view, tables, reading.mode)
    candidates = CandidateSearch(reading.runner, plan, reading.directory)
    if not candidates:
        return {}
    search = ViolationSearch(reading.catalog, reading.mode, tables, candidates)
    bad: dict[tuple[str, int], RowViolation | DuplicateRow] = {
        (each.table_key, each.second): each for each in search.duplicates()
    }
    for violation in search.violations():
        if not violation.orders:
            raise violation.error
        for order in violation.orders:
            bad.setdefault((violation.table_key, order), violation)
    return bad


def _require_readable(
    tables: Mapping[str, StagedRows], bad: Mapping[tuple[str, int], RowViolation | DuplicateRow]
) -> None:
    """Fail if a bad row belongs to a type with blobs: such a fragment cannot be rewritten without the input."""
    for (key, _), why in bad.items():
        if tables[key].has_blobs:
            reason = why.error.message if isinstance(why, RowViolation) else f"the id {why.row_id!r} occurs twice"
            raise InvalidInput(f"{tables[key].type.name} has blobs, so this row cannot be set aside: {reason}")


def _reject(positions: _SourcePositions, table: StagedRows, order: int, why: RowViolation | DuplicateRow) -> Reject:
    position = positions.of(table, order)
    if isinstance(why, RowViolation):
        return reject_of(why.error, position, _value(why.error))
    error = repeated_id(table.type, why.row_id, positions.of(table, why.first), position)
    return reject_of(error, position, why.row_id)


@dataclass(frozen=True)
class _SourcePositions:
    """Source positions of rows. A unit is read again, at most once per table, to find them."""

    reading: InputRead
    written: Written
    read: dict[tuple[int, str], array[int]] = field(default_factory=dict)

    def of(self, table: StagedRows, order: int) -> SourcePosition:
        """The source position of a row of a staged table."""
        number, offset = staged_row(order)
        fragment = table.fragments[number]
        index = fragment.first + fragment.original(offset)
        unit = self.written.units[fragment.unit]
        if isinstance(unit, FrameUnit):
            return SourcePosition(unit.name, "row", self._nth_good(index + unit.first_row, fragment.unit))
        forms = {"graph records": "record", "rows": "record", "graph text": "line"}
        kind = "line" if unit.split is not None else forms.get(unit.input.form, "row")
        numbers = self._source_numbers(fragment.unit, unit, table.type.table_key)
        if index >= len(numbers):
            raise InvalidInput(f"{unit.input.name} changed while it was being loaded; load it again.")
        return SourcePosition(unit.input.name, cast("Counted", kind), numbers[index])

    def _nth_good(self, number: int, unit: int) -> int:
        """The row number in a Spark frame, including the rows before it that the task has set aside."""
        for bad in sorted(reject.number for at, reject in self.written.rejects if at == unit):
            if bad > number:
                break
            number += 1
        return number

    def _source_numbers(self, at: int, unit: Unit, table_key: str) -> array[int]:
        if (at, table_key) not in self.read:
            numbers = self.read[at, table_key] = array("q")
            catalog, world = self.reading.catalog, self.reading.world
            for chunk in chunks_of(unit, self.reading.readable, world):
                for batch, _ in valid_rows(catalog, chunk, [], world):
                    if batch.type.table_key == table_key:
                        numbers.extend(batch.positions.numbers)
        return self.read[at, table_key]


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
