"""Validates a change once over committed and buffered rows: values, uniqueness, edge endpoints, edge cardinality.

The order is fixed: one family of rules after another, tables in name order, rows in the order they were put. This is
the driver for changes in memory: it looks up the rows to compare, and `evaluate.py` says which of them violate a rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.rules import count_rule, endpoint_rules, type_of, unique_rules, value_rules
from omnigraph.kernels.arrays import ID, one_array
from omnigraph.kernels.equality import row_numbers
from omnigraph.transaction.buffered_table import StateAfter
from omnigraph.transaction.constraints.evaluate import (
    SOURCE,
    altered_sources,
    count_violations,
    endpoint_violations,
    in_row_order,
    unique_violations,
    value_violations,
)
from omnigraph.values.row_ids import has_own_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.catalog.rules import EdgeCount, Endpoint, Unique
    from omnigraph.errors import CardinalityViolation, ConstraintViolation, OrphanEdge, UniqueViolation
    from omnigraph.transaction.buffered_table import BufferedTable
    from omnigraph.transaction.read_view import ReadView
    from omnigraph.transaction.write_set import TableChanges

__all__ = ["validate", "violations"]

_NO_IDS = pa.array([], pa.string())


def validate(catalog: Catalog, view: ReadView, changes: Mapping[str, TableChanges]) -> None:
    """Raise the first violation, if there is one."""
    for violation in violations(catalog, view, changes):
        raise violation


def violations(catalog: Catalog, view: ReadView, changes: Mapping[str, TableChanges]) -> Iterator[ConstraintViolation]:
    """Yield every violation, computed lazily."""
    after = StateAfter(view, changes)
    for table_key, rows in after.puts():
        yield from value_violations(value_rules(catalog, table_key), rows)
    for table_key, rows in after.puts():
        found = [_shared_tuples(rule, catalog, rows, after) for rule in unique_rules(catalog, table_key)]
        yield from (error for _, error in in_row_order(*found))
    yield from _absent_endpoints(catalog, after)
    for name in sorted(catalog.edges):
        rule = count_rule(catalog.edges[name])
        if rule is not None and rule.edge_key in changes:
            yield from _edge_counts(rule, after)


def _shared_tuples(
    rule: Unique, catalog: Catalog, rows: pa.Table, after: StateAfter
) -> Iterator[tuple[int, UniqueViolation]]:
    """Compare the rows that are put with committed rows that share a value with them and stay."""
    kind, table = type_of(catalog, rule.table_key), after.table(rule.table_key)
    if not rule.is_key:
        return unique_violations(rule, rows, _committed(rule, rows, table))
    # Ids derived from the key repeat when the key does, and no id repeats within a change.
    compared = ~has_own_id(kind, rows)
    if not compared.any():
        return iter(())
    few = rows.take(row_numbers(np.flatnonzero(compared)))
    return unique_violations(rule, rows, _committed(rule, few, table), compared)


def _committed(rule: Unique, rows: pa.Table, table: BufferedTable) -> pa.Table:
    wanted = {name: rows.column(name) for name in rule.columns}
    return table.unchanged_matching(wanted, [*rule.columns, ID]).rows


def _absent_endpoints(catalog: Catalog, after: StateAfter) -> Iterator[OrphanEdge]:
    """Yield endpoint violations by edge type in name order: edges put, in row order, then committed ones, by id."""
    present = _present_nodes(catalog, after)
    for name in sorted(catalog.edges):
        rules = endpoint_rules(catalog.edges[name])
        puts = after.table(rules[0].edge_key).change.puts
        if puts is not None:
            found = [endpoint_violations(rule, puts, present[rule]) for rule in rules if rule in present]
            yield from (error for _, error in in_row_order(*found))
        yield from _at_removed_nodes([rule for rule in rules if after.loses_rows(rule.node_key)], after)


def _present_nodes(catalog: Catalog, after: StateAfter) -> dict[Endpoint, pa.Array[Any]]:
    """For each edge put, whether its node exists: one lookup per node table, however many edge types point at it."""
    wanted: dict[str, list[tuple[Endpoint, pa.Array[Any]]]] = {}
    for edge in catalog.edges.values():
        change = after.changes.get(edge.table_key)
        if change is not None and change.puts is not None and change.puts.num_rows:
            for rule in endpoint_rules(edge):
                wanted.setdefault(rule.node_key, []).append((rule, one_array(change.puts.column(rule.end))))
    found: dict[Endpoint, pa.Array[Any]] = {}
    for node_key, endpoints in sorted(wanted.items()):
        present = after.table(node_key).has(pa.concat_arrays([ids for _, ids in endpoints]))
        start = 0
        for rule, ids in endpoints:
            found[rule] = present.slice(start, len(ids))
            start += len(ids)
    return found


def _at_removed_nodes(rules: list[Endpoint], after: StateAfter) -> Iterator[OrphanEdge]:
    """Yield violations for committed edges that the change leaves untouched, at nodes that it removes, by id."""
    found = [
        (error.row_id, rule.end == "dst", error)
        for rule in rules
        for edges in _edges_of_removed_nodes(rule, after)
        for _, error in endpoint_violations(rule, edges, pc.invert(_is_removed(rule, edges, after)))
    ]
    yield from (error for *_, error in sorted(found, key=lambda each: each[:2]))


def _edges_of_removed_nodes(rule: Endpoint, after: StateAfter) -> Iterator[pa.Table]:
    """The untouched edges among which those at removed nodes are: all of them when the nodes are overwritten."""
    edges, nodes = after.table(rule.edge_key), after.table(rule.node_key)
    if nodes.change.overwrite:
        return edges.unchanged_batches([ID, rule.end], rows=len(nodes.put_ids))
    return iter([edges.unchanged_matching({rule.end: nodes.deleted_ids}, [ID, rule.end]).rows])


def _is_removed(rule: Endpoint, edges: pa.Table, after: StateAfter) -> pa.Array[Any]:
    return after.is_deleted(rule.node_key, one_array(edges.column(rule.end)))


def _edge_counts(rule: EdgeCount, after: StateAfter) -> Iterator[CardinalityViolation]:
    """Count the edges of the sources whose number of edges the change alters; a removed source is not counted."""
    table = after.table(rule.edge_key)
    put = _ids_and_sources(table.change.puts)
    sources = altered_sources(put, _edges_before(table))
    if after.loses_rows(rule.node_key):
        sources = sources.filter(pc.invert(after.is_deleted(rule.node_key, sources)))
    if not len(sources):
        return iter(())
    return count_violations(rule, sources, put, table.unchanged_matching({SOURCE: sources}, [SOURCE]).rows)


def _edges_before(table: BufferedTable) -> pa.Table:
    """The committed edges that the change replaces or removes."""
    key, view = table.change.table_key, table.view
    if table.change.overwrite:
        return _ids_and_sources(view.read(key, [ID, SOURCE]))
    # Rows that must be new replace nothing: staging enforces it.
    replaced = _NO_IDS if table.change.only_new else table.put_ids
    return view.rows_matching(key, {ID: pa.concat_arrays([replaced, table.deleted_ids])}, [ID, SOURCE]).rows


def _ids_and_sources(rows: pa.Table | None) -> pa.Table:
    return pa.table({ID: _NO_IDS, SOURCE: _NO_IDS}) if rows is None else rows.select([ID, SOURCE])
