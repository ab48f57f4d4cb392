"""Files with a table of one type: Parquet, CSV, JSON lines, ORC, Arrow and Lance, as streams of typed batches."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

import lance
import pyarrow as pa

from omnigraph.errors import InvalidInput
from omnigraph.store.lance_errors import lance_errors
from omnigraph.store.location import parse_location
from omnigraph.write.load.casts import cast_column
from omnigraph.write.load.framing import numbered_lines
from omnigraph.write.load.json_objects import BadRecord, strict_object
from omnigraph.write.load.ndjson import bad_record
from omnigraph.write.load.opening import Found, is_remote, open_file
from omnigraph.write.load.places import Place
from omnigraph.write.load.tabular import ENDS, read_arrow, read_rows
from omnigraph.write.load.texts import text_column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from omnigraph.language.schema.catalog import Catalog
    from omnigraph.world import World
    from omnigraph.write.load.batches import Batch, GraphType
    from omnigraph.write.load.framing import Readable
    from omnigraph.write.load.tabular import Convert

JSON_SUFFIXES = frozenset({".jsonl", ".ndjson", ".json"})
_SEPARATORS = {".csv": ",", ".tsv": "\t"}


def read_file(found: Found, kind: GraphType, catalog: Catalog, world: World) -> Iterator[Batch]:
    """The rows of one file, whose format its suffix tells."""
    suffix = found.suffix
    with open_file(found, world) as stream:
        if suffix in JSON_SUFFIXES:
            yield from read_json_lines(stream, kind, source=found.name)
            return
        with readable(found):
            reader, convert = open_table(found, kind, stream)
            yield from read_arrow(reader, kind, catalog, source=found.name, convert=convert)


def open_table(found: Found, kind: GraphType, stream: BinaryIO) -> tuple[pa.RecordBatchReader, Convert]:
    """An open file as a stream of Arrow, and how its cells are read."""
    if found.suffix in _SEPARATORS:
        return _open_csv(stream, _SEPARATORS[found.suffix], kind), text_column
    return _open(found.suffix, found)(stream), cast_column


def read_json_lines(stream: Readable, kind: GraphType, *, source: str, first_line: int = 1) -> Iterator[Batch]:
    """Rows written one object a line. `first_line` is the number of the first, when it is a part of a file."""
    yield from read_rows(_objects(stream, source, first_line), kind, source=source, unit="line")


def is_table_suffix(suffix: str) -> bool:
    """Whether a file with this suffix holds a table of one type."""
    return suffix in _SEPARATORS or suffix in _BINARY


def read_lance(where: str, kind: GraphType, catalog: Catalog, world: World) -> Iterator[Batch]:
    """The rows of another Lance dataset; its blobs are copied."""
    options = dict(parse_location(where, world).storage_options or {}) if is_remote(where) else None
    with lance_errors(f"reading {where}"):
        dataset = lance.dataset(where, storage_options=options)
    yield from read_arrow(lance_reader(dataset), kind, catalog, source=where)


def lance_reader(dataset: Any) -> pa.RecordBatchReader:
    """A Lance dataset as a stream, with the bytes of its blobs."""
    reader: pa.RecordBatchReader = dataset.scanner(blob_handling="all_binary").to_reader()
    return reader


def _objects(stream: Readable, source: str, first_line: int) -> Iterator[tuple[int, dict[str, Any]]]:
    for start, lines in numbered_lines(stream, source, first_line=first_line):
        for number, line in enumerate(lines, start):
            if not line or line.isspace():
                continue
            try:
                yield number, strict_object(line)
            except BadRecord as bad:
                raise bad_record(Place(source, "line", number), bad) from None


@contextmanager
def readable(found: Found) -> Iterator[None]:
    """Errors of the libraries that read a file, as ours."""
    try:
        yield
    except (pa.ArrowException, OSError, EOFError) as error:
        raise InvalidInput(f"{found.name} cannot be read as {found.suffix[1:]}: {error}") from error


def _open(suffix: str, found: Found) -> Callable[[BinaryIO], pa.RecordBatchReader]:
    if suffix not in _BINARY:
        known = ", ".join(sorted({*JSON_SUFFIXES, *_SEPARATORS, *_BINARY, ".lance"}))
        raise InvalidInput(f"{found.name}: the suffix tells the format, and it is none of {known}.")
    return _BINARY[suffix]


def _open_csv(stream: BinaryIO, separator: str, kind: GraphType) -> pa.RecordBatchReader:
    """Every cell as text. An empty cell is null; a quoted empty one is an empty text."""
    from pyarrow import csv

    names = ["id", *kind.properties, *(name for spellings in ENDS.values() for name in spellings)]
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
