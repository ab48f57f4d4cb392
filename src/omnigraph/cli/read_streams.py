"""The rows of a read as csv or jsonl while they come, so that a result of any size can be printed."""

from __future__ import annotations

import tempfile
from itertools import chain
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from omnigraph.cli.read_formats import compact, csv_line
from omnigraph.read.result_json import json_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any


def stream_lines(
    query_name: str, target: Mapping[str, str], reader: pa.RecordBatchReader, wanted: Literal["csv", "jsonl"]
) -> Iterator[str]:
    """The lines of a format. `jsonl` begins with how many rows there are: until that is known, they wait in a file."""
    if wanted == "csv":
        yield from _csv(reader.schema.names, _rows(reader))
        return
    with tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n") as waiting:
        count = 0
        for row in _rows(reader):
            waiting.write(compact(row) + "\n")
            count += 1
        waiting.seek(0)
        yield compact({"kind": "metadata", "query_name": query_name, "target": dict(target), "row_count": count})
        yield from (line.rstrip("\n") for line in waiting)


def _csv(names: Sequence[str], rows: Iterator[dict[str, Any]]) -> Iterator[str]:
    # What fails before the first row fails before anything is printed.
    first = next(rows, None)
    yield csv_line(names)
    for row in [] if first is None else chain([first], rows):
        yield csv_line([row[name] for name in names])


def _rows(reader: pa.RecordBatchReader) -> Iterator[dict[str, Any]]:
    for batch in reader:
        yield from json_rows(pa.Table.from_batches([batch]), large_integers_as_text=True)
