"""The rows of a query, in whatever form they are wanted."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.read.result_json import json_rows, json_text, python_rows
from omnigraph.read.result_text import html_table, text_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from omnigraph.read.result_graph import EntityColumn


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
        """A list of dictionaries. A moment is an aware `datetime`."""
        return python_rows(self._table)

    def to_json(self, *, large_integers_as_text: bool = True) -> str:
        """A JSON array of objects. Integers beyond ±(2^53 − 1) are strings unless told otherwise."""
        return json_text(json_rows(self._table, large_integers_as_text=large_integers_as_text))

    def to_svg(self) -> str | None:
        """A small picture of the nodes, edges and paths that were returned whole; None when nothing is connected.

        Nodes of one row are linked by a dashed line when the row has neither an edge nor a path.
        """
        from omnigraph.read.result_graph import graph_of
        from omnigraph.read.result_picture import picture

        return picture(graph_of(self._table, self._entities))

    def __repr__(self) -> str:
        return text_table(self._table)

    def _repr_html_(self) -> str:
        return html_table(self._table) + (self.to_svg() or "")
