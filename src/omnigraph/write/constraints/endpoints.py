"""Both ends of every edge are there: of edges that are put, and of committed edges whose nodes the change removes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.store.tables import ID
from omnigraph.write.constraints.rules import endpoint_rules
from omnigraph.write.constraints.values import in_row_order
from omnigraph.write.same_value import distinct, one_array

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from omnigraph.errors import ConstraintViolation
    from omnigraph.language.schema.catalog import Catalog
    from omnigraph.write.constraints.outcome import Outcome
    from omnigraph.write.constraints.rules import Endpoint


def endpoint_violations(catalog: Catalog, outcome: Outcome) -> Iterator[ConstraintViolation]:
    """By edge type in name order: edges that are put, in row order, then committed ones, by their ids."""
    present = _present_nodes(catalog, outcome)
    for name in sorted(catalog.edges):
        rules = endpoint_rules(catalog.edges[name])
        change = outcome.changes.get(catalog.edges[name].table_key)
        if change is not None and change.puts is not None and change.puts.num_rows:
            yield from _dangling(rules, change.puts, present)
        yield from _stranded(rules, outcome)


def _present_nodes(catalog: Catalog, outcome: Outcome) -> dict[str, pa.Array[Any]]:
    """For each node table that edges are put on, which of the ends they name are there: one lookup per table."""
    named: dict[str, list[pa.Array[Any]]] = {}
    for edge in catalog.edges.values():
        change = outcome.changes.get(edge.table_key)
        if change is None or change.puts is None or not change.puts.num_rows:
            continue
        for rule in endpoint_rules(edge):
            named.setdefault(rule.node_key, []).append(distinct(change.puts.column(rule.end)))
    return {key: outcome.table(key).present(pa.concat_arrays(ids)) for key, ids in sorted(named.items())}


def _dangling(
    rules: Sequence[Endpoint], rows: pa.Table, present: dict[str, pa.Array[Any]]
) -> Iterator[ConstraintViolation]:
    # A null end is told by the rule that requires it.
    broken = [
        (np.flatnonzero(_absent(one_array(rows.column(rule.end)), present[rule.node_key])), rule) for rule in rules
    ]
    for row, rule in in_row_order(broken):
        yield rule.violation(rows.column(ID)[row].as_py(), rows.column(rule.end)[row].as_py())


def _absent(ends: pa.Array[Any], present: pa.Array[Any]) -> Any:
    absent = pc.and_(pc.is_valid(ends), pc.invert(pc.is_in(ends, value_set=present)))
    return absent.to_numpy(zero_copy_only=False)


def _stranded(rules: Sequence[Endpoint], outcome: Outcome) -> Iterator[ConstraintViolation]:
    """Committed edges that the change leaves alone, at nodes that it removes."""
    found = {rule.end: _edges_of_lost_nodes(rule, outcome) for rule in rules if outcome.loses_rows(rule.node_key)}
    by_end = {rule.end: rule for rule in rules}
    lost = [(row_id, end, node_id) for end, edges in found.items() for row_id, node_id in edges]
    for row_id, end, node_id in sorted(lost, key=lambda each: (each[0], each[1] == "dst")):
        yield by_end[end].violation(row_id, node_id)


def _edges_of_lost_nodes(rule: Endpoint, outcome: Outcome) -> list[tuple[str, str]]:
    edges, nodes = outcome.table(rule.edge_key), outcome.table(rule.node_key)
    if nodes.change.overwrite:
        pieces = [_at_lost_nodes(rule, outcome, piece) for piece in edges.survivor_pieces([ID, rule.end])]
    else:
        pieces = [edges.survivors_where({rule.end: nodes.deleted_ids}, [ID, rule.end])]
    return [pair for each in pieces for pair in zip(*(each.column(n).to_pylist() for n in (ID, rule.end)), strict=True)]


def _at_lost_nodes(rule: Endpoint, outcome: Outcome, edges: pa.Table) -> pa.Table:
    return edges.filter(outcome.is_lost(rule.node_key, one_array(edges.column(rule.end))))
