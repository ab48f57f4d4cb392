"""Validates a change once over committed and buffered rows: values, uniqueness, edge endpoints, edge cardinality.

The order is fixed: one family of rules after another, tables in name order, rows in the order they were put.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.catalog.rules import count_rule, type_of, unique_rules, value_rules
from omnigraph.transaction.buffered_table import StateAfter
from omnigraph.transaction.constraints.edges import count_violations, endpoint_violations
from omnigraph.transaction.constraints.unique import unique_violations
from omnigraph.transaction.constraints.values import value_violations

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.errors import ConstraintViolation
    from omnigraph.transaction.read_view import ReadView
    from omnigraph.transaction.write_set import TableChanges

__all__ = ["validate", "violations"]


def validate(catalog: Catalog, view: ReadView, changes: Mapping[str, TableChanges]) -> None:
    """Raise the first violation, if there is one."""
    for violation in violations(catalog, view, changes):
        raise violation


def violations(catalog: Catalog, view: ReadView, changes: Mapping[str, TableChanges]) -> Iterator[ConstraintViolation]:
    """Yield every violation, computed lazily."""
    outcome = StateAfter(view, changes)
    for table_key, rows in outcome.puts():
        yield from value_violations(value_rules(catalog, table_key), rows)
    for table_key, rows in outcome.puts():
        rules, kind = unique_rules(catalog, table_key), type_of(catalog, table_key)
        yield from unique_violations(rules, kind, rows, outcome.table(table_key))
    yield from endpoint_violations(catalog, outcome)
    for name in sorted(catalog.edges):
        rule = count_rule(catalog.edges[name])
        if rule is not None and catalog.edges[name].table_key in changes:
            yield from count_violations(rule, outcome)
