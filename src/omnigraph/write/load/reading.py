"""An input of a plan as a stream of typed batches."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.errors import InvalidInput
from omnigraph.write.load.formats import lance_reader, read_file, read_lance
from omnigraph.write.load.graph_records import BATCH_ROWS, RecordSorter
from omnigraph.write.load.json_objects import BadRecord
from omnigraph.write.load.ndjson import bad_record, read_permissive, read_strict
from omnigraph.write.load.opening import open_file
from omnigraph.write.load.places import Place, refuse
from omnigraph.write.load.tabular import read_arrow, read_rows
from omnigraph.write.load.values import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.language.schema.catalog import Catalog
    from omnigraph.world import World
    from omnigraph.write.load.batches import Batch
    from omnigraph.write.load.framing import Readable
    from omnigraph.write.load.sources import Input


def read_input(each: Input, catalog: Catalog, world: World, *, strict: bool = True) -> Iterator[Batch]:
    """The rows of one input. Raises at the first that cannot be loaded."""
    match each.form:
        case "graph file":
            with open_file(each.data, world) as stream:
                yield from _graph(stream, catalog, each.name, strict=strict)
        case "graph stream":
            yield from _graph(each.data, catalog, each.name, strict=strict)
        case "graph text":
            yield from _graph(io.BytesIO(each.data), catalog, each.name, strict=strict)
        case "graph records":
            yield from _records(each.data, catalog, strict=strict)
        case _:
            yield from _typed(each, catalog, world, strict=strict)


def _typed(each: Input, catalog: Catalog, world: World, *, strict: bool) -> Iterator[Batch]:
    assert each.type is not None
    match each.form:
        case "file":
            yield from read_file(each.data, each.type, catalog, world)
        case "lance":
            yield from read_lance(each.data, each.type, catalog, world)
        case "rows":
            numbered = enumerate(_objects(each.data, each.name), 1)
            yield from read_rows(numbered, each.type, source=each.name, unit="record", lenient=not strict)
        case "table":
            yield from read_arrow(table_reader(each.data, each.name), each.type, catalog, source=each.name)
        case _:
            raise InvalidInput(f"{each.name}: a Spark DataFrame is loaded by Spark: use engine='spark' or 'auto'.")


def _graph(stream: Readable, catalog: Catalog, source: str, *, strict: bool) -> Iterator[Batch]:
    if strict:
        return read_strict(stream, catalog, source=source)
    return read_permissive(stream, catalog, source=source)


def _records(records: Iterable[object], catalog: Catalog, *, strict: bool) -> Iterator[Batch]:
    sorter = RecordSorter(catalog, source="", unit="record", lenient=not strict)
    for number, record in enumerate(_objects(records, ""), 1):
        try:
            sorter.add(record, number)
        except BadRecord as bad:
            raise bad_record(Place("", "record", number), bad) from None
        if sorter.waiting >= BATCH_ROWS:
            yield from sorter.batches()
    yield from sorter.batches()


def _objects(records: Iterable[object], source: str) -> Iterator[dict[str, Any]]:
    for number, record in enumerate(records, 1):
        if not isinstance(record, Mapping):
            message = f"expected a record (a dict), got {shown(record)}"
            raise refuse(Place(source, "record", number), "not_an_object", message)
        yield dict(record)


def table_reader(table: Any, name: str) -> pa.RecordBatchReader:
    """Arrow, pandas, polars, a Lance dataset: anything with columns, as a stream."""
    try:
        return _stream(table)
    except (pa.ArrowException, TypeError) as error:
        raise InvalidInput(f"{name}: the {type(table).__name__} cannot be read as a table: {error}") from error


def _stream(table: Any) -> pa.RecordBatchReader:
    if isinstance(table, pa.RecordBatchReader):
        return table
    if hasattr(table, "iloc"):
        # An index is about positions in a frame, not about the graph.
        return pa.Table.from_pandas(table, preserve_index=False).to_reader()
    if hasattr(table, "take_blobs"):
        return lance_reader(table)
    if hasattr(table, "collect"):
        return _stream(table.collect())
    if hasattr(table, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(table)
    if hasattr(table, "__arrow_c_array__"):
        batch = pa.record_batch(table)
        return pa.RecordBatchReader.from_batches(batch.schema, [batch])
    scanner = table.scanner() if hasattr(table, "scanner") else table
    reader: pa.RecordBatchReader = scanner.to_reader()
    return reader
