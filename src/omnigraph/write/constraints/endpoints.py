"""Both ends of every edge are there: of edges that are put, and of committed edges whose nodes the change removes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.store.arrow_columns import one_array
from omnigraph.store.tables import ID
from omnigraph.write.constraints.rules import endpoint_rules
from omnigraph.write.constraints.values import in_row_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from omnigraph.errors import ConstraintViolation
    from omnigraph.language.schema.catalog import Catalog
    from omnigraph.write.constraints.outcome import Outcome
    from omnigraph.write.constraints.rules import Endpoint


def endpoint_violations(catalog: Catalog, outcome: Outcome) -> Iterator[ConstraintViolation]:
    """By edge type in name order: edges that are put, in row order, then committed ones, by their ids."""
    dangling = _dangling(catalog, outcome)
    for name in sorted(catalog.edges):
        rules = endpoint_rules(catalog.edges[name])
        puts = outcome.table(rules[0].edge_key).change.puts
        for row, rule in in_row_order([(dangling[rule], rule) for rule in rules if rule in dangling]):
            assert puts is not None
            yield rule.violation(puts.column(ID)[row].as_py(), puts.column(rule.end)[row].as_py())
        yield from _stranded(rules, outcome)


def _dangling(catalog: Catalog, outcome: Outcome) -> dict[Endpoint, NDArray[Any]]:
    """The rows that name an end which is not there: one lookup per node table, whatever the edges at it.

    A null end is told by the rule that requires it.
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
        pieces = [
            _at_lost_nodes(rule, outcome, piece)
            for piece in edges.survivor_pieces([ID, rule.end], rows=len(nodes.put_ids))
        ]
    else:
        pieces = [edges.survivors_where({rule.end: nodes.deleted_ids}, [ID, rule.end])]
    return [pair for each in pieces for pair in zip(*(each.column(n).to_pylist() for n in (ID, rule.end)), strict=True)]


def _at_lost_nodes(rule: Endpoint, outcome: Outcome, edges: pa.Table) -> pa.Table:
    return edges.filter(outcome.is_lost(rule.node_key, one_array(edges.column(rule.end))))
