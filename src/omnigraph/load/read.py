"""Reads one input of a load plan as a stream of typed batches.

Single-type files may be Parquet, CSV, TSV, JSON lines, ORC, Arrow or Lance; the suffix determines the format. Graph
records, Arrow-compatible tables and Python records are read here as well.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from omnigraph.errors import InvalidInput
from omnigraph.errors.root import display_text
from omnigraph.load.files import InputFile, is_remote, open_input, resolved_options
from omnigraph.load.graph_records import BATCH_ROWS, BadRecord, RecordSorter, strict_object
from omnigraph.load.ndjson import bad_record, numbered_lines, read_permissive, read_strict
from omnigraph.load.tabular import ENDPOINTS, read_arrow, read_rows
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.tables.table import Table, open_dataset
from omnigraph.values.arrow_casts import cast_column, text_column
from omnigraph.values.columns import SourcePosition, refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.load.ndjson import Readable
    from omnigraph.load.plan import Input
    from omnigraph.load.tabular import Convert
    from omnigraph.values.batches import Batch, GraphType
    from omnigraph.world import World

JSON_SUFFIXES = frozenset({".jsonl", ".ndjson", ".json"})
_SEPARATORS = {".csv": ",", ".tsv": "\t"}


def read_file(found: InputFile, kind: GraphType, catalog: Catalog, world: World) -> Iterator[Batch]:
    """Read the rows of one file. The suffix determines the format."""
    suffix = found.suffix
    with open_input(found, resolved_options([found], world=world)) as stream:
        if suffix in JSON_SUFFIXES:
            yield from read_json_lines(stream, kind, source=found.name)
            return
        with readable(found):
            reader, convert = open_table(found, kind, stream)
            yield from read_arrow(reader, kind, catalog, source=found.name, convert=convert)


def open_table(found: InputFile, kind: GraphType, stream: BinaryIO) -> tuple[pa.RecordBatchReader, Convert]:
    """Open a table file as an Arrow stream. Also returns the conversion for its columns: text (CSV) or cast."""
    if found.suffix in _SEPARATORS:
        return _open_csv(stream, _SEPARATORS[found.suffix], kind), text_column
    return _open(found.suffix, found)(stream), cast_column


def read_json_lines(stream: Readable, kind: GraphType, *, source: str, first_line: int = 1) -> Iterator[Batch]:
    """Read one JSON object per line. `first_line` numbers the first line if the stream is part of a file."""
    yield from read_rows(_objects(stream, source, first_line), kind, source=source, unit="line")


def is_table_suffix(suffix: str) -> bool:
    """Whether this suffix denotes a single-type table file."""
    return suffix in _SEPARATORS or suffix in _BINARY


def read_lance(where: str, kind: GraphType, catalog: Catalog, world: World) -> Iterator[Batch]:
    """Read the rows of another Lance dataset. Blob contents are copied."""
    options = parse_location(where, world).storage_options if is_remote(where) else None
    yield from read_arrow(open_dataset(where, storage_options=options).reader(), kind, catalog, source=where)


def _objects(stream: Readable, source: str, first_line: int) -> Iterator[tuple[int, dict[str, Any]]]:
    for start, lines in numbered_lines(stream, source, first_line=first_line):
        for number, line in enumerate(lines, start):
            if not line or line.isspace():
                continue
            try:
                yield number, strict_object(line)
            except BadRecord as bad:
                raise bad_record(SourcePosition(source, "line", number), bad) from None


@contextmanager
def readable(found: InputFile) -> Iterator[None]:
    """Translate errors of Arrow and of the file system into `InvalidInput`."""
    try:
        yield
    except (pa.ArrowException, OSError, EOFError) as error:
        raise InvalidInput(f"{found.name} cannot be read as {found.suffix[1:]}: {error}") from error


def _open(suffix: str, found: InputFile) -> Callable[[BinaryIO], pa.RecordBatchReader]:
    if suffix not in _BINARY:
        known = ", ".join(sorted({*JSON_SUFFIXES, *_SEPARATORS, *_BINARY, ".lance"}))
        raise InvalidInput(f"{found.name}: the suffix determines the format, and it is none of {known}.")
    return _BINARY[suffix]


def _open_csv(stream: BinaryIO, separator: str, kind: GraphType) -> pa.RecordBatchReader:
    """Read every cell as a string. An empty cell is null; a quoted empty cell is the empty string."""
    from pyarrow import csv

    names = ["id", *kind.properties, *(name for accepted in ENDPOINTS.values() for name in accepted)]
    return csv.open_csv(
        stream,
        read_options=csv.ReadOptions(use_threads=False),
        parse_options=csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _open_parquet(stream: BinaryIO) -> pa.RecordBatchReader:
    from pyarrow import parquet

    file = parquet.ParquetFile(stream)
    return pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())


def _open_orc(stream: BinaryIO) -> pa.RecordBatchReader:
    from pyarrow import orc

    file = orc.ORCFile(stream)
    stripes = (file.read_stripe(index) for index in range(file.nstripes))
    return pa.RecordBatchReader.from_batches(file.schema, stripes)


def _open_arrow(stream: Any) -> pa.RecordBatchReader:
    file = pa.ipc.open_file(stream)
    batches = (file.get_batch(index) for index in range(file.num_record_batches))
    return pa.RecordBatchReader.from_batches(file.schema, batches)


_BINARY: dict[str, Callable[[BinaryIO], pa.RecordBatchReader]] = {
    ".parquet": _open_parquet,
    ".pq": _open_parquet,
    ".orc": _open_orc,
    ".arrow": _open_arrow,
    ".feather": _open_arrow,
}


def read_input(each: Input, catalog: Catalog, world: World, *, strict: bool = True) -> Iterator[Batch]:
    """Read the rows of one input. Raises at the first row that cannot be loaded."""
    match each.form:
        case "graph file":
            with open_input(each.data, resolved_options([each.data], world=world)) as stream:
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
            numbered = enumerate(_parsed_objects(each.data, each.name), 1)
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
    for number, record in enumerate(_parsed_objects(records, ""), 1):
        try:
            sorter.add(record, number)
        except BadRecord as bad:
            raise bad_record(SourcePosition("", "record", number), bad) from None
        if sorter.buffered >= BATCH_ROWS:
            yield from sorter.batches()
    yield from sorter.batches()


def _parsed_objects(records: Iterable[object], source: str) -> Iterator[dict[str, Any]]:
    for number, record in enumerate(records, 1):
        if not isinstance(record, Mapping):
            message = f"expected a record (a dict), got {display_text(record)}"
            raise refuse(SourcePosition(source, "record", number), "not_an_object", message)
        yield dict(record)


def table_reader(table: Any, name: str) -> pa.RecordBatchReader:
    """Open an Arrow table, a pandas or polars frame, or a Lance dataset as an Arrow stream."""
    try:
        return _stream(table)
    except (pa.ArrowException, TypeError) as error:
        raise InvalidInput(f"{name}: the {type(table).__name__} cannot be read as a table: {error}") from error


def _stream(table: Any) -> pa.RecordBatchReader:
    if isinstance(table, pa.RecordBatchReader):
        return table
    if hasattr(table, "iloc"):
        # The pandas index numbers rows of the frame and is not graph data.
        return pa.Table.from_pandas(table, preserve_index=False).to_reader()
    if hasattr(table, "take_blobs"):
        return Table(table, path="a Lance dataset", branch=None).reader()
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
