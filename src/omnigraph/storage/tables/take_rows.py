"""Reads rows of a table by row address, without reading the others, and the contents of blob columns.

Lance takes addresses as a filter, which is slow to parse when long, or row ids as a set, which first have to be looked
up in the metadata of every fragment. It takes positions too, which is very slow in a table with deleted rows. Each of
the first two is used where it is fast; many rows are read by several threads. A scan of a blob column gives only
descriptions: how each blob is stored, and where.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from lance.dataset import serialize_row_addrs

from omnigraph.counters import count
from omnigraph.kernels.arrays import ID, one_array
from omnigraph.kernels.row_address import ROW_ADDRESS, ROW_ID, by_fragment, fragments_of
from omnigraph.storage.filters.model import one_of, render
from omnigraph.storage.lance.errors import lance_errors
from omnigraph.storage.lance.metadata import row_ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance import FragmentMetadata

    from omnigraph.kernels.row_address import Addresses, Offsets
    from omnigraph.storage.tables.table import Table

# A blob as it is written: its bytes, or the URI of external ones.
Blob = dict[str, Any]

_EXTERNAL = 3


def read_blobs(table: Table, column: str, ids: Sequence[str]) -> dict[str, Blob | None]:
    """The blobs of some rows, by id; None where the blob is null."""
    rows = table.read([ID, ROW_ID, column], one_of(ID, ids))
    names: list[Any] = rows.column(ID).to_pylist()
    row_id_values: list[Any] = rows.column(ROW_ID).to_pylist()
    found = [external(each) for each in descriptions(rows.column(column))]
    inline = [at for at, each in enumerate(descriptions(rows.column(column))) if is_inline(each)]
    if inline:
        with lance_errors(f"reading blobs of {table.path}.{column}"):
            files = open_blobs(table, column, row_ids=[row_id_values[at] for at in inline])
            for at, file in zip(inline, files, strict=True):
                found[at] = None if file is None else {"data": file.read(), "uri": None}
    return dict(zip(names, found, strict=True))


def open_blobs(
    table: Table, column: str, *, row_ids: Sequence[int] | None = None, positions: Sequence[int] | None = None
) -> list[Any]:
    """Open the blobs of rows, given by row id or by position in a scan, as Lance's files; None where one is null."""
    files: list[Any] = table.handle.take_blobs(
        column,
        ids=None if row_ids is None else list(row_ids),
        indices=None if positions is None else list(positions),
    )
    return files


def blobs_at(table: Table, column: str, addresses: Sequence[int]) -> dict[int, bytes | None]:
    """The bytes of the blobs at some row addresses."""
    with lance_errors(f"reading blobs of {table.path}.{column}"):
        return dict(table.handle.read_blobs(column, addresses=list(addresses))) if addresses else {}


def descriptions(column: pa.ChunkedArray[Any] | pa.Array[Any]) -> list[Any]:
    """The description of each blob that a scan returned; None for null."""
    array = one_array(column)
    stored: list[Any] = (array.storage if isinstance(array, pa.ExtensionArray) else array).to_pylist()
    return stored


def is_inline(description: dict[str, Any] | None) -> bool:
    """Whether the table stores the bytes. Earlier releases wrote a null as an empty payload at position 0."""
    if description is None or description["kind"] == _EXTERNAL:
        return False
    return any(description[name] for name in ("kind", "position", "size", "blob_uri"))


def external(description: dict[str, Any] | None) -> Blob | None:
    """A blob that is stored elsewhere, as its URI; None for others."""
    if description is None or description["kind"] != _EXTERNAL:
        return None
    return {"data": None, "uri": description["blob_uri"]}


# A filter on one address costs as much as looking up the row ids of this many rows.
DENSE = 400
FEW_ROWS = 500
AT_ONCE = 10_000
_THREADS = 4


def rows_at(table: Table, columns: Sequence[str], addresses: Addresses) -> pa.Table:
    """The rows at these addresses, all of which must exist."""
    if not len(addresses):
        return table.schema_of(columns).empty_table()
    count("table_scans", table.path)
    requests = [_RowRequest(table, list(columns), each) for each in _split_for_threads(np.sort(addresses))]
    with lance_errors(f"fetching rows of {table.path} at version {table.version}"):
        if len(requests) == 1:
            return requests[0].read()
        with ThreadPoolExecutor(_THREADS) as pool:
            return pa.concat_tables(pool.map(_RowRequest.read, requests))


def _split_for_threads(addresses: Addresses) -> list[Addresses]:
    """Split the addresses for several threads, at most one per fragment: two on one fragment would share work."""
    rows, fragments = len(addresses), len(fragments_of(addresses))
    return np.array_split(addresses, max(min(_THREADS, fragments, rows // FEW_ROWS), -(-rows // AT_ONCE), 1))


@dataclass(frozen=True)
class _RowRequest:
    """The rows that one thread reads."""

    table: Table
    columns: list[str]
    addresses: Addresses

    def read(self) -> pa.Table:
        rows: pa.Table = self.table.handle.scanner(columns=self.columns, **self._limits()).to_table()
        assert rows.num_rows == len(self.addresses), "every requested row exists, once"
        return rows

    def _limits(self) -> dict[str, Any]:
        wanted = by_fragment(self.addresses)
        fragments = [self.table.handle.get_fragment(fragment_id) for fragment_id, _ in wanted]
        chosen = None
        if len(self.addresses) > FEW_ROWS:
            about = [each.metadata for each in fragments]
            chosen = _row_ids(about, [offsets for _, offsets in wanted])
        if chosen is not None:
            return {"fragments": fragments, "row_addr_allowlist": serialize_row_addrs(chosen.tolist())}
        where = one_of(ROW_ADDRESS, self.addresses.tolist())
        return {"fragments": fragments, "filter": render(where, self.table.schema)}


def _row_ids(fragments: list[FragmentMetadata], offsets: list[Offsets]) -> Addresses | None:
    """The row ids of some rows of each fragment; None if that takes too long or the metadata does not have them."""
    if sum(int(each.physical_rows) for each in fragments) > DENSE * sum(map(len, offsets)):
        return None
    found = []
    for fragment, rows in zip(fragments, offsets, strict=True):
        sequence = row_ids(fragment)
        if sequence is None:
            return None
        found.append(sequence.to_numpy()[rows])
    return np.concatenate(found)
