"""The result of a query: an Arrow table that converts to other forms, and prints in a terminal or notebook.

A DateTime is stored as `date64`, which Arrow converts to a date without the time of day; the values here keep it.
"""

from __future__ import annotations

import datetime as dt
import html
import json
import unicodedata
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.kernels.arrays import python_values
from omnigraph.kernels.report import plain, timestamp_text
from omnigraph.world import EPOCH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from omnigraph.query.result.picture import EntityColumn


def python_rows(table: pa.Table) -> list[dict[str, Any]]:
    """One dictionary for each row. Timestamps are aware datetimes in UTC; Arrow alone would return their dates."""
    columns = [_converted(table.column(name), _timestamp) for name in table.column_names]
    return [dict(zip(table.column_names, values, strict=True)) for values in zip(*columns, strict=True)]


def json_rows(table: pa.Table, *, large_integers_as_text: bool) -> list[dict[str, Any]]:
    """One dictionary for each row, with values that JSON can represent."""
    columns = [_converted(table.column(name), _timestamp_text) for name in table.column_names]
    rows = zip(*columns, strict=True)
    return [
        {name: plain(value, large_integers_as_text) for name, value in zip(table.column_names, values, strict=True)}
        for values in rows
    ]


def json_text(rows: list[dict[str, Any]]) -> str:
    """Rows as a JSON array."""
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _converted(column: pa.ChunkedArray[Any], convert: Callable[[int], object]) -> list[Any]:
    kind = column.type
    if not _has_timestamps(kind):
        return column.to_pylist()
    return [_with_timestamps(value, kind, convert) for value in python_values(column)]


def _has_timestamps(kind: Any) -> bool:
    if pa.types.is_struct(kind):
        return any(_has_timestamps(each.type) for each in kind)
    if pa.types.is_list(kind):
        return _has_timestamps(kind.value_type)
    return pa.types.is_date64(kind)


def _with_timestamps(value: Any, kind: Any, convert: Callable[[int], object]) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {each.name: _with_timestamps(value[each.name], each.type, convert) for each in kind}
    if pa.types.is_list(kind):
        return [_with_timestamps(each, kind.value_type, convert) for each in value]
    return convert(value) if pa.types.is_date64(kind) else value


def _timestamp(milliseconds: int) -> dt.datetime:
    return EPOCH + dt.timedelta(milliseconds=milliseconds)


def _timestamp_text(milliseconds: int) -> str:
    return timestamp_text(_timestamp(milliseconds))


_ROWS, _WIDEST = 20, 40


def text_table(table: pa.Table) -> str:
    """The first rows as a framed text table, and the number of all rows."""
    names, rows = table.column_names, _cells(table, _ROWS)
    numeric = [_is_number(table, name) for name in names]
    widths = [max([_width(name), *(_width(row[at]) for row in rows)]) for at, name in enumerate(names)]
    lines = [_rule("┌", "┬", "┐", widths), _line(names, widths, [False] * len(names)), _rule("├", "┼", "┤", widths)]
    lines += [_line(row, widths, numeric) for row in rows]
    lines += [_rule("└", "┴", "┘", widths), _footer(table)]
    return "\n".join(lines)


def html_table(table: pa.Table) -> str:
    """The first rows as an HTML table."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in table.column_names)
    numeric = [_is_number(table, name) for name in table.column_names]
    body = "".join(
        "<tr>" + "".join(_html_cell(cell, right) for cell, right in zip(row, numeric, strict=True)) + "</tr>"
        for row in _cells(table, _ROWS)
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{html.escape(_footer(table))}</p>"


def _html_cell(cell: str, right: bool) -> str:
    return f'<td style="text-align: {"right" if right else "left"}">{html.escape(cell)}</td>'


def _cells(table: pa.Table, most: int) -> list[list[str]]:
    rows = json_rows(table.slice(0, most), large_integers_as_text=False)
    return [[_cell(value) for value in row.values()] for row in rows]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list | bool) else str(value)
    text = " ".join(text.split())
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def _is_number(table: pa.Table, name: str) -> bool:
    import pyarrow as pa

    kind = table.schema.field(name).type
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _width(text: str) -> int:
    """The width in terminal columns: wide East Asian characters take two."""
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)


def _line(cells: list[str], widths: list[int], right: list[bool]) -> str:
    padded = []
    for cell, width, to_right in zip(cells, widths, right, strict=True):
        space = " " * (width - _width(cell))
        padded.append(f"{space}{cell}" if to_right else f"{cell}{space}")
    return "│ " + " │ ".join(padded) + " │"


def _rule(left: str, middle: str, right: str, widths: list[int]) -> str:
    return left + middle.join("─" * (width + 2) for width in widths) + right


def _footer(table: pa.Table) -> str:
    rows = "1 row" if table.num_rows == 1 else f"{table.num_rows:,} rows"
    return rows if table.num_rows <= _ROWS else f"{rows}, the first {_ROWS} are shown"


class Result:
    """An Arrow table with other faces. Anything that reads the Arrow C stream reads a result as it is."""

    def __init__(self, table: pa.Table, entities: Mapping[str, EntityColumn] | None = None) -> None:
        self._table = table
        self._entities = entities or {}

    @property
    def columns(self) -> list[str]:
        """The column names, in the order of `return`."""
        return list(self._table.column_names)

    @property
    def schema(self) -> pa.Schema:
        """Names and Arrow types of the columns."""
        return self._table.schema

    def __len__(self) -> int:
        return self._table.num_rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows as dictionaries, a batch at a time."""
        for batch in self.batches():
            yield from python_rows(pa.Table.from_batches([batch]))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        table: Any = self._table
        return table.__arrow_c_stream__(requested_schema)

    def batches(self, rows: int = 65_536) -> Iterator[pa.RecordBatch]:
        """The rows as Arrow batches of at most so many rows."""
        yield from self._table.to_batches(max_chunksize=rows)

    def to_arrow(self) -> pa.Table:
        """An Arrow table."""
        return self._table

    def to_pandas(self) -> Any:
        """A pandas DataFrame, which needs pandas."""
        return self._table.to_pandas(date_as_object=False)

    def to_polars(self) -> Any:
        """A polars DataFrame, which needs polars."""
        return import_module("polars").DataFrame(self)

    def to_pylist(self) -> list[dict[str, Any]]:
        """A list of dictionaries. A timestamp is an aware `datetime`."""
        return python_rows(self._table)

    def to_json(self, *, large_integers_as_text: bool = True) -> str:
        """A JSON array of objects. Integers beyond ±(2^53 − 1) are strings by default."""
        return json_text(json_rows(self._table, large_integers_as_text=large_integers_as_text))

    def to_svg(self) -> str | None:
        """A small picture of the nodes, edges and paths that were returned whole; None when nothing is connected.

        Nodes of one row are linked by a dashed line when the row has neither an edge nor a path.
        """
        from omnigraph.query.result.picture import graph_of, picture

        return picture(graph_of(self._table, self._entities))

    def __repr__(self) -> str:
        return text_table(self._table)

    def _repr_html_(self) -> str:
        return html_table(self._table) + (self.to_svg() or "")
