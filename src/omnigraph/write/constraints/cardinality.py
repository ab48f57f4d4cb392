"""How many edges of a type a source has, for the sources whose number the change may alter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.store.arrow_columns import one_array
from omnigraph.store.tables import ID
from omnigraph.write.same_value import tuple_codes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from omnigraph.errors import ConstraintViolation
    from omnigraph.write.constraints.outcome import Outcome
    from omnigraph.write.constraints.rules import EdgeCount
    from omnigraph.write.overlay import Overlay

    Ids = pa.Array[Any]

_SOURCE = "src"
_NONE = pa.array([], pa.string())


def count_violations(rule: EdgeCount, outcome: Outcome) -> Iterator[ConstraintViolation]:
    """Sources of edges that are put, in row order, then sources that lose edges, by their ids.

    An edge that stays where it is alters no number, and a source that is removed itself is not counted.
    """
    table = outcome.table(rule.edge_key)
    sources, counts = _with_new_edges(table)
    if outcome.loses_rows(rule.node_key):
        staying = pc.invert(outcome.is_lost(rule.node_key, sources))
        sources, counts = sources.filter(staying), counts[staying.to_numpy(zero_copy_only=False)]
    if not len(sources):
        return
    counts = counts + _committed_counts(table, sources)
    wrong = counts < rule.minimum
    if rule.maximum is not None:
        wrong |= counts > rule.maximum
    for place in np.flatnonzero(wrong):
        yield rule.violation(sources[int(place)].as_py(), int(counts[place]))


def _with_new_edges(table: Overlay) -> tuple[Ids, NDArray[np.int64]]:
    """Every source that gains or loses an edge, once, with the number of its edges that are put."""
    before, after = _before(table), _ends(table.change.puts)
    put: Any = pc.value_counts(one_array(after.column(_SOURCE)).drop_null())
    values, counts = put.field("values"), put.field("counts").to_numpy(zero_copy_only=False)
    if not before.num_rows:
        return values, counts
    sources = _altered_sources(before, after)
    places = pc.index_in(sources, value_set=values).fill_null(len(values)).to_numpy(zero_copy_only=False)
    return sources, np.append(counts, 0)[places]


def _altered_sources(before: pa.Table, after: pa.Table) -> Ids:
    gained, lost = _only_in(after, before), _only_in(before, after)
    lost_sources = one_array(lost.column(_SOURCE))
    ordered = lost_sources.take(pc.sort_indices(lost_sources))
    return pc.unique(pa.concat_arrays([one_array(gained.column(_SOURCE)).drop_null(), ordered]))


def _before(table: Overlay) -> pa.Table:
    """The committed edges that the change replaces or removes."""
    key, view = table.change.table_key, table.view
    if table.change.overwrite:
        return _ends(view.read(key, [ID, _SOURCE]))
    # Rows that must be new replace nothing: staging makes sure of it.
    replaced = _NONE if table.change.only_new else table.put_ids
    return _ends(view.rows_where(key, ID, pa.concat_arrays([replaced, table.deleted_ids]), [ID, _SOURCE]))


def _ends(rows: pa.Table | None) -> pa.Table:
    if rows is None:
        return pa.table({ID: _NONE, _SOURCE: _NONE})
    return pa.table({ID: rows.column(ID), _SOURCE: rows.column(_SOURCE)})


def _only_in(rows: pa.Table, others: pa.Table) -> pa.Table:
    """The rows whose pair of edge and source the others do not have."""
    pairs = [
        one_array(pa.chunked_array([*rows.column(c).chunks, *others.column(c).chunks], pa.string()))
        for c in (ID, _SOURCE)
    ]
    codes, size = tuple_codes(pairs)
    seen = np.zeros(size + 1, dtype=bool)
    seen[codes[rows.num_rows :]] = True
    return rows.filter(pa.array(~seen[codes[: rows.num_rows]]))


def _committed_counts(table: Overlay, sources: Ids) -> NDArray[np.int64]:
    """How many committed edges that the change leaves alone each of the sources has."""
    ends = one_array(table.survivors_where({_SOURCE: sources}, [_SOURCE]).column(_SOURCE))
    if not len(ends):
        return np.zeros(len(sources), np.int64)
    places = pc.index_in(ends, value_set=sources).to_numpy(zero_copy_only=False)
    return np.bincount(places, minlength=len(sources))
