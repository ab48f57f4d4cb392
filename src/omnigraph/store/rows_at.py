"""Rows of a table by their addresses: found without reading the others, and by several threads when they are many.

Lance takes addresses as a filter, which it is slow to read a long one of, or its own numbers of rows as a set, which
have to be looked up in the metadata of every piece first. It takes positions too, and is very slow at that in a table
that has lost rows. Each way is quick where it is used.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from lance.dataset import serialize_row_addrs

from omnigraph.store.counting import count
from omnigraph.store.filters import one_of, render
from omnigraph.store.lance_errors import lance_errors
from omnigraph.store.row_metadata import row_ids
from omnigraph.store.shared_files import ROW_ADDRESS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance import LanceFragment

    from omnigraph.store.shared_files import Numbers
    from omnigraph.store.tables import Table

# A filter of one address costs as much as looking up the numbers of so many rows.
DENSE = 400
FEW_ROWS = 500
AT_ONCE = 10_000
_THREADS = 4


def rows_at(table: Table, columns: Sequence[str], addresses: Numbers) -> pa.Table:
    """The rows at these addresses, all of which the table has."""
    if not len(addresses):
        return table.schema_of(columns).empty_table()
    count("table_scans", table.path)
    asked = [_Asked(table, list(columns), each) for each in _parts(np.sort(addresses))]
    with lance_errors(f"fetching rows of {table.path} at version {table.version}"):
        if len(asked) == 1:
            return asked[0].read()
        with ThreadPoolExecutor(_THREADS) as pool:
            return pa.concat_tables(pool.map(_Asked.read, asked))


def _parts(addresses: Numbers) -> list[Numbers]:
    """Rows of several pieces for several threads: two that read one piece would do some of the work twice."""
    rows, pieces = len(addresses), len(np.unique(addresses >> np.uint64(32)))
    return np.array_split(addresses, max(min(_THREADS, pieces, rows // FEW_ROWS), -(-rows // AT_ONCE), 1))


@dataclass(frozen=True)
class _Asked:
    """Some rows that one thread reads."""

    table: Table
    columns: list[str]
    addresses: Numbers

    def read(self) -> pa.Table:
        rows: pa.Table = self.table.dataset.scanner(columns=self.columns, **self._limits()).to_table()
        assert rows.num_rows == len(self.addresses), "every row that is asked for is there, once"
        return rows

    def _limits(self) -> dict[str, Any]:
        numbers, starts = np.unique(self.addresses >> np.uint64(32), return_index=True)
        pieces = [self.table.dataset.get_fragment(int(each)) for each in numbers]
        numbered = None
        if len(self.addresses) > FEW_ROWS:
            numbered = _row_ids(pieces, np.split(self.addresses & np.uint64(0xFFFFFFFF), starts[1:]))
        if numbered is not None:
            return {"fragments": pieces, "row_addr_allowlist": serialize_row_addrs(numbered.tolist())}
        where = one_of(ROW_ADDRESS, self.addresses.tolist())
        return {"fragments": pieces, "filter": render(where, self.table.schema)}


def _row_ids(pieces: list[LanceFragment], offsets: list[Numbers]) -> Numbers | None:
    """Lance's numbers of some rows of each piece; None when it would take too long, or the metadata has them not."""
    about = [each.metadata for each in pieces]
    if sum(int(each.physical_rows) for each in about) > DENSE * sum(map(len, offsets)):
        return None
    found = []
    for piece, rows in zip(about, offsets, strict=True):
        known = row_ids(piece)
        if known is None:
            return None
        found.append(known.to_numpy()[rows])
    return np.concatenate(found)
