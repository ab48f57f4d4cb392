"""Where rows of one state of a table lie, by their ids: Lance's number of a row, and its address."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.store.tables import ID

if TYPE_CHECKING:
    from omnigraph.store.shared_files import Numbers

ROW_ID, ROW_ADDRESS = "_rowid", "_rowaddr"
PLACE_COLUMNS = [ROW_ID, ROW_ADDRESS]


@dataclass(frozen=True)
class Places:
    """Rows that are there. No id is in it twice."""

    rows: pa.Table

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    @cached_property
    def ids(self) -> pa.Array[Any]:
        """The ids of the rows."""
        return pa.concat_arrays(self.rows.column(ID).chunks) if len(self) else pa.array([], pa.string())

    @cached_property
    def row_ids(self) -> Numbers:
        """Lance's stable numbers of the rows."""
        return np.asarray(self.rows.column(ROW_ID).to_numpy(), np.uint64)

    @cached_property
    def addresses(self) -> Numbers:
        """The numbers of their pieces, in the upper 32 bits, and of the rows within them."""
        return np.asarray(self.rows.column(ROW_ADDRESS).to_numpy(), np.uint64)

    def of(self, ids: pa.Array[Any]) -> Places:
        """Those of these ids."""
        return Places(self.rows.filter(pc.is_in(self.ids, value_set=ids)))

    def without(self, addresses: Numbers) -> Places:
        """Those that are not at one of these addresses."""
        return Places(self.rows.filter(pa.array(~np.isin(self.addresses, addresses))))

    def and_(self, others: Places) -> Places:
        """Both."""
        return Places(pa.concat_tables([self.rows, others.rows]))


def places_in(rows: pa.Table) -> Places:
    """The places that rows were read with."""
    return Places(rows.select([ID, *PLACE_COLUMNS]).cast(NOWHERE.rows.schema))


_FIELDS: list[pa.Field[Any]] = [
    pa.field(ID, pa.string()),
    pa.field(ROW_ID, pa.uint64()),
    pa.field(ROW_ADDRESS, pa.uint64()),
]
NOWHERE = Places(pa.schema(_FIELDS).empty_table())
