"""Merges rows that both sides changed column by column, as far as values decide it; no row becomes a Python object.

The remaining rows are left to `three_way`, which decides row by row: entities that one side removed, or that both
changed differently.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.history.delta import equal_values
from omnigraph.kernels.arrays import ID

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from omnigraph.history.delta import TableDelta

    Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class MergedColumns:
    """Rows to write, and the ids of rows that have to be decided one by one."""

    puts: pa.Table
    left: pa.Array[Any]


def settle_columns(
    source: TableDelta, target: TableDelta, contested: pa.Array[Any], *, by_property: bool
) -> MergedColumns:
    """Merge those of the contested rows that both sides have changed, and neither has added or removed."""
    everywhere = _among(contested, _among(source.before_ids, _among(target.after_ids, source.after_ids)))
    base, ours, theirs = (_rows(each, everywhere) for each in (source.before, target.after, source.after))
    if not theirs.num_rows or ours.column_names != theirs.column_names:
        return MergedColumns(source.after.slice(0, 0), contested)
    names = [name for name in theirs.column_names if name != ID]
    takes: dict[str, Mask] = {}
    open_rows = np.zeros(theirs.num_rows, dtype=bool)
    for name in names:
        agreed = equal_values(theirs.column(name), ours.column(name))
        if not by_property:
            open_rows |= ~agreed
            continue
        untouched = equal_values(theirs.column(name), base.column(name)) | agreed
        only_theirs = equal_values(ours.column(name), base.column(name))
        takes[name] = ~untouched & only_theirs
        open_rows |= ~untouched & ~only_theirs
    done = theirs.column(ID).combine_chunks().filter(pa.array(~open_rows))
    return MergedColumns(_merged(ours, theirs, takes, ~open_rows), _without(contested, done))


def _merged(ours: pa.Table, theirs: pa.Table, takes: dict[str, Mask], settled: Mask) -> pa.Table:
    """Our rows with the values that only the source has changed; rows without such a value are left out."""
    changed = settled & np.logical_or.reduce([np.zeros(len(settled), dtype=bool), *takes.values()])
    rows = np.flatnonzero(changed)
    columns = []
    for field in theirs.schema:
        places = np.where(takes[field.name][rows], rows + len(settled), rows) if field.name in takes else rows
        both = pa.chunked_array([*ours.column(field.name).chunks, *theirs.column(field.name).chunks], type=field.type)
        columns.append(both.take(places))
    return pa.table(columns, schema=theirs.schema)


def _rows(table: pa.Table, ids: pa.Array[Any]) -> pa.Table:
    """Some rows of a table that is sorted by id."""
    return table.filter(pc.is_in(table.column(ID), value_set=ids))


def _among(ids: pa.Array[Any], others: pa.Array[Any]) -> pa.Array[Any]:
    return ids.filter(pc.is_in(ids, value_set=others))


def _without(ids: pa.Array[Any], others: pa.Array[Any]) -> pa.Array[Any]:
    return ids.filter(pc.invert(pc.is_in(ids, value_set=others)))
