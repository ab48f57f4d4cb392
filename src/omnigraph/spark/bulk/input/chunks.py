"""A unit in chunks that can be read again in halves: how the bad rows of a load are found among the good ones."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.spark.bulk.input.units import read_block, row_source
from omnigraph.spark.source_files import resolved_options
from omnigraph.spark.splits import read_blocks
from omnigraph.write.load.places import Place, Places
from omnigraph.write.load.reading import read_input
from omnigraph.write.load.tabular import read_arrow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from omnigraph.language.schema.catalog import Catalog
    from omnigraph.spark.bulk.input.units import Unit
    from omnigraph.world import World
    from omnigraph.write.load.batches import Batch, GraphType
    from omnigraph.write.load.tabular import Convert

_LINES = 16_384


@dataclass(frozen=True)
class Lines:
    """Lines of a file or text."""

    unit: Unit
    catalog: Catalog
    lines: Sequence[bytes]
    first: int

    def __len__(self) -> int:
        return len(self.lines)

    def part(self, start: int, end: int) -> Lines:
        """Some of the lines."""
        return replace(self, lines=self.lines[start:end], first=self.first + start)

    def read(self) -> Iterator[Batch]:
        """Their rows."""
        return read_block(self.unit, self.catalog, io.BytesIO(b"\n".join(self.lines)), self.first)

    @property
    def place(self) -> Place:
        """Where the first one stands."""
        return Place(self.unit.input.name, "line", self.first)

    def shown(self) -> str:
        """The first one, for a person."""
        return self.lines[0].decode("utf-8", "replace")


@dataclass(frozen=True)
class Rows:
    """Rows of a table."""

    type: GraphType
    catalog: Catalog
    source: str
    convert: Convert
    batch: pa.RecordBatch
    first: int

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def part(self, start: int, end: int) -> Rows:
        """Some of the rows."""
        return replace(self, batch=self.batch.slice(start, end - start), first=self.first + start)

    def read(self) -> Iterator[Batch]:
        """Typed."""
        reader = pa.RecordBatchReader.from_batches(self.batch.schema, [self.batch])
        return read_arrow(
            reader, self.type, self.catalog, source=self.source, convert=self.convert, first_row=self.first
        )

    @property
    def place(self) -> Place:
        """Where the first one stands."""
        return Place(self.source, "row", self.first)

    def shown(self) -> str:
        """The first one, for a person."""
        return str(self.batch.slice(0, 1).to_pylist()[0])


@dataclass(frozen=True)
class Records:
    """Records that were passed in."""

    unit: Unit
    catalog: Catalog
    world: World
    records: Sequence[Any]
    first: int

    def __len__(self) -> int:
        return len(self.records)

    def part(self, start: int, end: int) -> Records:
        """Some of the records."""
        return replace(self, records=self.records[start:end], first=self.first + start)

    def read(self) -> Iterator[Batch]:
        """Typed, with the numbers they have in the whole."""
        for batch in read_input(replace(self.unit.input, data=self.records), self.catalog, self.world):
            numbers = [number + self.first - 1 for number in batch.places.numbers]
            yield replace(batch, places=Places(batch.places.source, "record", numbers))

    @property
    def place(self) -> Place:
        """Where the first one stands."""
        return Place(self.unit.input.name, "record", self.first)

    def shown(self) -> str:
        """The first one, for a person."""
        return str(self.records[0])


Chunk = Lines | Rows | Records


def chunks_of(unit: Unit, catalog: Catalog, world: World) -> Iterator[Chunk]:
    """The whole unit in order."""
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
) -> Iterator[Rows]:
    """The batches of a stream. Its columns are checked at once: they are no fault of a row."""
    assert kind is not None
    nothing = pa.RecordBatchReader.from_batches(reader.schema, [])
    list(read_arrow(nothing, kind, catalog, source=source, convert=convert))
    for batch in reader:
        if batch.num_rows:
            yield Rows(kind, catalog, source, convert, batch, first)
        first += batch.num_rows


def _lines(unit: Unit, catalog: Catalog, data: bytes, first: int) -> Iterator[Lines]:
    lines = data.removesuffix(b"\n").split(b"\n") if data else []
    for start in range(0, len(lines), _LINES):
        yield Lines(unit, catalog, lines[start : start + _LINES], first + start)
