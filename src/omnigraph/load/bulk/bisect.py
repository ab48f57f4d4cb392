"""Reads a unit in chunks and bisects a chunk with a bad row until the row is found and set aside.

This replaces the plain pass over the input when the error policy allows rejects.
"""

from __future__ import annotations

import io
import json
import pickle
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.catalog.rules import type_of, value_rules
from omnigraph.embeddings.embedder import expect_vectors
from omnigraph.errors import ConstraintViolation, InvalidRecord, OmniGraphError
from omnigraph.load.bulk.rejects import Reject, reject_of, renumbered, require_within
from omnigraph.load.bulk.splits import read_blocks
from omnigraph.load.bulk.units import read_block, row_source
from omnigraph.load.bulk.write import READING, Sink, is_minted, result
from omnigraph.load.files import resolved_options
from omnigraph.load.read import read_input
from omnigraph.load.rows import whole_rows
from omnigraph.load.tabular import read_arrow
from omnigraph.transaction.constraints.evaluate import value_violations
from omnigraph.values.columns import SourcePosition, SourcePositions
from omnigraph.values.row_ids import strict_ids

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.load.bulk.units import Unit
    from omnigraph.load.bulk.write import WriteJob
    from omnigraph.load.tabular import Convert
    from omnigraph.values.batches import Batch, GraphType
    from omnigraph.world import World

    ValidRows = list[tuple[Batch, pa.Table]]

_LINES = 16_384


@dataclass(frozen=True)
class Lines:
    """A chunk of lines of a file or text."""

    unit: Unit
    catalog: Catalog
    lines: Sequence[bytes]
    first: int

    def __len__(self) -> int:
        return len(self.lines)

    def slice(self, start: int, end: int) -> Lines:
        """A sub-range of the lines."""
        return replace(self, lines=self.lines[start:end], first=self.first + start)

    def read(self) -> Iterator[Batch]:
        """Read the lines as typed batches."""
        return read_block(self.unit, self.catalog, io.BytesIO(b"\n".join(self.lines)), self.first)

    @property
    def position(self) -> SourcePosition:
        """The source position of the first row."""
        return SourcePosition(self.unit.input.name, "line", self.first)

    def display_text(self) -> str:
        """The text of the first row, for the reject."""
        return self.lines[0].decode("utf-8", "replace")


@dataclass(frozen=True)
class RowChunk:
    """A chunk of rows of a table."""

    type: GraphType
    catalog: Catalog
    source: str
    convert: Convert
    batch: pa.RecordBatch
    first: int

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def slice(self, start: int, end: int) -> RowChunk:
        """A sub-range of the rows."""
        return replace(self, batch=self.batch.slice(start, end - start), first=self.first + start)

    def read(self) -> Iterator[Batch]:
        """Read the rows as typed batches."""
        reader = pa.RecordBatchReader.from_batches(self.batch.schema, [self.batch])
        return read_arrow(
            reader, self.type, self.catalog, source=self.source, convert=self.convert, first_row=self.first
        )

    @property
    def position(self) -> SourcePosition:
        """The source position of the first row."""
        return SourcePosition(self.source, "row", self.first)

    def display_text(self) -> str:
        """The text of the first row, for the reject."""
        return str(self.batch.slice(0, 1).to_pylist()[0])


@dataclass(frozen=True)
class Records:
    """A chunk of records that the caller passed."""

    unit: Unit
    catalog: Catalog
    world: World
    records: Sequence[Any]
    first: int

    def __len__(self) -> int:
        return len(self.records)

    def slice(self, start: int, end: int) -> Records:
        """A sub-range of the records."""
        return replace(self, records=self.records[start:end], first=self.first + start)

    def read(self) -> Iterator[Batch]:
        """Read the records as typed batches, numbered as in the whole input."""
        for batch in read_input(replace(self.unit.input, data=self.records), self.catalog, self.world):
            record_numbers = [number + self.first - 1 for number in batch.positions.numbers]
            yield replace(batch, positions=SourcePositions(batch.positions.source, "record", record_numbers))

    @property
    def position(self) -> SourcePosition:
        """The source position of the first row."""
        return SourcePosition(self.unit.input.name, "record", self.first)

    def display_text(self) -> str:
        """The text of the first row, for the reject."""
        return str(self.records[0])


Chunk = Lines | RowChunk | Records


def chunks_of(unit: Unit, catalog: Catalog, world: World) -> Iterator[Chunk]:
    """Split a unit into chunks, in order."""
    form = unit.input.form
    if unit.split is not None:
        for block in read_blocks(unit.split, resolved_options([unit.split.file], world=world)):
            yield from _lines(unit, catalog, block.data, block.first_line)
    elif form == "graph text":
        yield from _lines(unit, catalog, unit.input.data, 1)
    elif form in ("graph records", "rows"):
        for start in range(0, len(unit.input.data), _LINES):
            yield Records(unit, catalog, world, unit.input.data[start : start + _LINES], start + 1)
    else:
        with row_source(unit, world) as (reader, convert):
            yield from table_chunks(unit.input.type, catalog, unit.input.name, reader, convert, unit.first_row)


def table_chunks(
    kind: GraphType | None,
    catalog: Catalog,
    source: str,
    reader: pa.RecordBatchReader,
    convert: Convert,
    first: int = 1,
) -> Iterator[RowChunk]:
    """Split an Arrow stream into chunks. Columns are checked first, because a wrong column is no fault of a row."""
    assert kind is not None
    nothing = pa.RecordBatchReader.from_batches(reader.schema, [])
    list(read_arrow(nothing, kind, catalog, source=source, convert=convert))
    for batch in reader:
        if batch.num_rows:
            yield RowChunk(kind, catalog, source, convert, batch, first)
        first += batch.num_rows


def _lines(unit: Unit, catalog: Catalog, data: bytes, first: int) -> Iterator[Lines]:
    lines = data.removesuffix(b"\n").split(b"\n") if data else []
    for start in range(0, len(lines), _LINES):
        yield Lines(unit, catalog, lines[start : start + _LINES], first + start)


def write_valid_rows(job: WriteJob, unit: int, chunks: Iterable[Chunk], limit: int) -> Iterator[pa.RecordBatch]:
    """Write the good rows of a unit. Yields batches of schema `RESULT`; more than `limit` bad rows are an error."""
    sinks: dict[str, Sink] = {}
    rejects: list[Reject] = []
    read, world = 0, job.world()
    try:
        for chunk in chunks:
            read += len(chunk)
            for batch, rows in valid_rows(job.catalog, chunk, rejects, world):
                key = batch.type.table_key
                sink = sinks.setdefault(key, Sink(job, unit, key))
                whole = job.with_vectors(batch, rows, world)
                yield from sink.add(whole, minted=is_minted(batch))
            require_within(rejects, limit)
        for sink in sinks.values():
            yield from sink.close()
    except OmniGraphError as error:
        yield result(unit, "error", "", READING, pickle.dumps(error))
    for each in rejects:
        yield result(unit, "reject", "", each.number, json.dumps(asdict(each)).encode())
    yield result(unit, "read", "", read, json.dumps(list(sinks)).encode())


def valid_rows(catalog: Catalog, chunk: Chunk, rejects: list[Reject], world: World) -> ValidRows:
    """The good rows of a chunk; bad ones are appended to `rejects`. Vectors still to be computed count as present."""
    try:
        return _read_valid(catalog, chunk, world)
    except (InvalidRecord, ConstraintViolation) as error:
        if len(chunk) > 1:
            middle = len(chunk) // 2
            halves = (chunk.slice(0, middle), chunk.slice(middle, len(chunk)))
            return [each for half in halves for each in valid_rows(catalog, half, rejects, world)]
        located = renumbered(error, chunk.position.source, chunk.position.unit, chunk.position.number)
        rejects.append(reject_of(located, chunk.position, chunk.display_text()))
        return []


def _read_valid(catalog: Catalog, chunk: Chunk, world: World) -> ValidRows:
    made = []
    for batch in chunk.read():
        rows, key = whole_rows(batch, strict_ids(batch, world)), batch.type.table_key
        kind = type_of(catalog, key)
        for violation in value_violations(value_rules(catalog, key), _expected(rows, batch.type, kind)):
            raise violation
        made.append((batch, rows))
    return made


def _expected(rows: pa.Table, read_as: GraphType, kind: GraphType) -> pa.Table:
    """The rows as they will be checked: zero vectors stand in for those that the load still computes."""
    return rows if read_as == kind else expect_vectors(rows, kind)
