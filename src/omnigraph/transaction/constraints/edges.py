"""Checks edge cardinality and edge endpoints over committed and buffered rows.

Cardinality is counted for the sources whose number of edges the change may alter. Endpoints must exist for edges that
are put, and for committed edges whose nodes the change deletes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.rules import endpoint_rules
from omnigraph.kernels.arrays import ID, one_array
from omnigraph.kernels.equality import tuple_codes
from omnigraph.transaction.constraints.values import in_row_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.catalog.rules import EdgeCount, Endpoint
    from omnigraph.errors import ConstraintViolation
    from omnigraph.transaction.buffered_table import BufferedTable, StateAfter

    Ids = pa.Array[Any]

_SOURCE = "src"
_NONE = pa.array([], pa.string())


def count_violations(rule: EdgeCount, outcome: StateAfter) -> Iterator[ConstraintViolation]:
    """Yield cardinality violations: sources of edges that are put, in row order, then sources that lose edges, by id.

    An edge whose source is unchanged alters no count, and a source that is itself deleted is not counted.
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


def _with_new_edges(table: BufferedTable) -> tuple[Ids, NDArray[np.int64]]:
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


def _before(table: BufferedTable) -> pa.Table:
    """The committed edges that the change replaces or deletes."""
    key, view = table.change.table_key, table.view
    if table.change.overwrite:
        return _ends(view.read(key, [ID, _SOURCE]))
    # Rows that must be new replace nothing: staging enforces it.
    replaced = _NONE if table.change.only_new else table.put_ids
    return _ends(view.rows_matching(key, {ID: pa.concat_arrays([replaced, table.deleted_ids])}, [ID, _SOURCE]).rows)


def _ends(rows: pa.Table | None) -> pa.Table:
    if rows is None:
        return pa.table({ID: _NONE, _SOURCE: _NONE})
    return pa.table({ID: rows.column(ID), _SOURCE: rows.column(_SOURCE)})


def _only_in(rows: pa.Table, others: pa.Table) -> pa.Table:
    """The rows whose pair of edge id and source is not among `others`."""
    pairs = [
        one_array(pa.chunked_array([*rows.column(c).chunks, *others.column(c).chunks], pa.string()))
        for c in (ID, _SOURCE)
    ]
    codes, size = tuple_codes(pairs)
    seen = np.zeros(size + 1, dtype=bool)
    seen[codes[rows.num_rows :]] = True
    return rows.filter(pa.array(~seen[codes[: rows.num_rows]]))


def _committed_counts(table: BufferedTable, sources: Ids) -> NDArray[np.int64]:
    """For each source, the number of its committed edges that the change leaves untouched."""
    ends = one_array(table.unchanged_matching({_SOURCE: sources}, [_SOURCE]).rows.column(_SOURCE))
    if not len(ends):
        return np.zeros(len(sources), np.int64)
    places = pc.index_in(ends, value_set=sources).to_numpy(zero_copy_only=False)
    return np.bincount(places, minlength=len(sources))


def endpoint_violations(catalog: Catalog, outcome: StateAfter) -> Iterator[ConstraintViolation]:
    """Yield endpoint violations by edge type in name order: edges put, in row order, then committed ones, by id."""
    dangling = _dangling(catalog, outcome)
    for name in sorted(catalog.edges):
        rules = endpoint_rules(catalog.edges[name])
        puts = outcome.table(rules[0].edge_key).change.puts
        for row, rule in in_row_order([(dangling[rule], rule) for rule in rules if rule in dangling]):
            assert puts is not None
            yield rule.violation(puts.column(ID)[row].as_py(), puts.column(rule.end)[row].as_py())
        yield from _stranded(rules, outcome)


def _dangling(catalog: Catalog, outcome: StateAfter) -> dict[Endpoint, NDArray[Any]]:
    """The rows whose endpoint does not exist: one lookup per node table, whatever the number of edge types at it.

    A null endpoint is reported by the rule that requires it.
    """
    asking: dict[str, list[tuple[Endpoint, pa.Array[Any]]]] = {}
    for edge in catalog.edges.values():
        change = outcome.changes.get(edge.table_key)
        if change is not None and change.puts is not None and change.puts.num_rows:
            for rule in endpoint_rules(edge):
                asking.setdefault(rule.node_key, []).append((rule, one_array(change.puts.column(rule.end))))
    found: dict[Endpoint, NDArray[Any]] = {}
    for node_key, asked in sorted(asking.items()):
        ends = pa.concat_arrays([each for _, each in asked])
        absent = pc.and_(pc.is_valid(ends), pc.invert(outcome.table(node_key).has(ends)))
        parts = np.split(absent.to_numpy(zero_copy_only=False), np.cumsum([len(each) for _, each in asked])[:-1])
        found |= {rule: np.flatnonzero(part) for (rule, _), part in zip(asked, parts, strict=True)}
    return found


def _stranded(rules: Sequence[Endpoint], outcome: StateAfter) -> Iterator[ConstraintViolation]:
    """Yield violations for committed edges that the change leaves untouched, at nodes that it deletes."""
    found = {rule.end: _edges_of_lost_nodes(rule, outcome) for rule in rules if outcome.loses_rows(rule.node_key)}
    by_end = {rule.end: rule for rule in rules}
    lost = [(row_id, end, node_id) for end, edges in found.items() for row_id, node_id in edges]
    for row_id, end, node_id in sorted(lost, key=lambda each: (each[0], each[1] == "dst")):
        yield by_end[end].violation(row_id, node_id)


def _edges_of_lost_nodes(rule: Endpoint, outcome: StateAfter) -> list[tuple[str, str]]:
    edges, nodes = outcome.table(rule.edge_key), outcome.table(rule.node_key)
    if nodes.change.overwrite:
        batches = [
            _at_lost_nodes(rule, outcome, batch)
            for batch in edges.unchanged_batches([ID, rule.end], rows=len(nodes.put_ids))
        ]
    else:
        batches = [edges.unchanged_matching({rule.end: nodes.deleted_ids}, [ID, rule.end]).rows]
    return [
        pair for each in batches for pair in zip(*(each.column(n).to_pylist() for n in (ID, rule.end)), strict=True)
    ]


def _at_lost_nodes(rule: Endpoint, outcome: StateAfter, edges: pa.Table) -> pa.Table:
    return edges.filter(outcome.is_lost(rule.node_key, one_array(edges.column(rule.end))))
