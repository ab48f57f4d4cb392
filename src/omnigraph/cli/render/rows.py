"""Renders the rows of a read as table, kv, csv, jsonl or json. Every format is stable, so that scripts can read it.

csv and jsonl can be written while rows arrive, so that a result of any size can be printed.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from omnigraph.query.result.result import json_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

Format = Literal["table", "kv", "csv", "jsonl", "json"]
Layout = Literal["truncate", "wrap"]
Row = dict[str, Any]
# Columns are at least this wide, whatever maximum is set.
NARROWEST = 8


@dataclass(frozen=True)
class ReadOutput:
    """The result of a read, and the state that was read. `target` is a branch or a snapshot."""

    query_name: str
    target: dict[str, str]
    columns: Sequence[str]
    rows: Sequence[Row]
    graph_commit_id: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The envelope that programs read."""
        document = {
            "query_name": self.query_name,
            "target": self.target,
            "row_count": len(self.rows),
            "columns": list(self.columns),
            "rows": list(self.rows),
        }
        return document if self.graph_commit_id is None else {**document, "graph_commit_id": self.graph_commit_id}

    @property
    def heading(self) -> str:
        """One line about the whole."""
        (kind, name), *_ = self.target.items()
        return f"{len(self.rows)} rows from {kind} {name} via {self.query_name}"

    @property
    def display_columns(self) -> list[str]:
        """The columns; without them, every name that a row has, in alphabetical order."""
        return list(self.columns) or sorted({name for row in self.rows for name in row})


@dataclass(frozen=True)
class TableStyle:
    """How wide a column of a table may be, and what becomes of longer values."""

    max_column_width: int = 80
    cell_layout: Layout = "truncate"


def render(output: ReadOutput, wanted: Format, style: TableStyle | None = None) -> Iterator[str]:
    """The lines of a format."""
    if wanted == "table":
        return _table(output, style or TableStyle())
    return _RENDERERS[wanted](output)


def _json(output: ReadOutput) -> Iterator[str]:
    yield json.dumps(output.to_json(), indent=2, ensure_ascii=False)


def _jsonl(output: ReadOutput) -> Iterator[str]:
    about = {"query_name": output.query_name, "target": output.target, "row_count": len(output.rows)}
    yield compact({"kind": "metadata", **about})
    yield from map(compact, output.rows)


def _csv(output: ReadOutput) -> Iterator[str]:
    columns = output.display_columns
    yield csv_line(columns)
    yield from (csv_line([row.get(name) for name in columns]) for row in output.rows)


def csv_line(values: Sequence[Any]) -> str:
    """One line of csv."""
    return ",".join(_quoted(_text(value)) for value in values)


def _quoted(value: str) -> str:
    if not set(value) & set(',"\r\n'):
        return value
    doubled = value.replace('"', '""')
    return f'"{doubled}"'


def _kv(output: ReadOutput) -> Iterator[str]:
    yield output.heading
    if not output.rows:
        yield "(no rows)"
    for number, row in enumerate(output.rows, start=1):
        if number > 1:
            yield ""
        yield f"row {number}"
        yield from (f"{name}: {_text(row.get(name))}" for name in output.display_columns)


_RENDERERS: dict[str, Callable[[ReadOutput], Iterator[str]]] = {"json": _json, "jsonl": _jsonl, "csv": _csv, "kv": _kv}


def _table(output: ReadOutput, style: TableStyle) -> Iterator[str]:
    columns = output.display_columns
    yield output.heading
    if not columns:
        yield "(no rows)"
        return
    cells = [[_text(row.get(name)).replace("\n", "\\n") for name in columns] for row in output.rows]
    widths = [_width(name, [row[at] for row in cells], style) for at, name in enumerate(columns)]
    yield _line(columns, widths)
    yield "-+-".join("-" * width for width in widths)
    for row in cells:
        chunks = [_cell_lines(cell, width, style.cell_layout) for cell, width in zip(row, widths, strict=True)]
        for at in range(max(map(len, chunks))):
            yield _line([each[at] if at < len(each) else "" for each in chunks], widths)


def _width(name: str, cells: Sequence[str], style: TableStyle) -> int:
    longest = max((min(len(cell), style.max_column_width) for cell in cells), default=0)
    return min(max(len(name), longest), max(style.max_column_width, NARROWEST))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))


def _cell_lines(cell: str, width: int, layout: Layout) -> list[str]:
    """A cell in lines that fit its column."""
    if len(cell) <= width:
        return [cell]
    if layout == "truncate":
        return [cell[: width - 1] + "…"]
    return [cell[start : start + width] for start in range(0, len(cell), width)]


def _text(value: Any) -> str:
    """A value in a cell: text as it is, everything else as compact JSON, so that null is `null`."""
    return value if isinstance(value, str) else compact(value)


def compact(value: Any) -> str:
    """A value as JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def stream_lines(
    query_name: str, target: Mapping[str, str], reader: pa.RecordBatchReader, wanted: Literal["csv", "jsonl"]
) -> Iterator[str]:
    """The lines of a format. `jsonl` begins with the number of rows: they are spilled to a file until it is known."""
    if wanted == "csv":
        yield from _csv_stream(reader.schema.names, _rows(reader))
        return
    with tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n") as spilled:
        count = 0
        for row in _rows(reader):
            spilled.write(compact(row) + "\n")
            count += 1
        spilled.seek(0)
        yield compact({"kind": "metadata", "query_name": query_name, "target": dict(target), "row_count": count})
        yield from (line.rstrip("\n") for line in spilled)


def _csv_stream(names: Sequence[str], rows: Iterator[dict[str, Any]]) -> Iterator[str]:
    # What fails before the first row fails before anything is printed.
    first = next(rows, None)
    yield csv_line(names)
    for row in [] if first is None else chain([first], rows):
        yield csv_line([row[name] for name in names])


def _rows(reader: pa.RecordBatchReader) -> Iterator[dict[str, Any]]:
    for batch in reader:
        yield from json_rows(pa.Table.from_batches([batch]), large_integers_as_text=True)
