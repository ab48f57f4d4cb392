"""Estimates the rows of operators from table sizes and the shape of conditions.

Estimates guide the choice of a plan and never change the result.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.storage.filters.model import And, Compare, IsNull, Not, OneOf, Or

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
    from omnigraph.language.ir.query import Traversal, Variable
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.query.plan.operators import Conditions
    from omnigraph.storage.filters.model import Filter

_EQUAL, _RANGE, _NULL, _TEXT, _OTHER = 0.05, 0.3, 0.1, 0.05, 0.5


@dataclass(frozen=True)
class Estimates:
    """Sizes of one snapshot. `chosen_counts` has the number of keys that a ranking has chosen for a variable."""

    snapshot: Snapshot
    catalog: Catalog
    chosen_counts: Mapping[str, int] = field(default_factory=dict)

    def rows(self, variable: Variable, conditions: Conditions) -> float:
        """The expected number of nodes or edges that a variable matches."""
        total = sum(self.size(self._declared(variable, name).table_key) for name in variable.types)
        expected = total * self.share(variable, conditions)
        return min(expected, self.chosen_counts.get(variable.name, expected))

    def share(self, variable: Variable, conditions: Conditions) -> float:
        """The selectivity of conditions: the fraction of the table that satisfies them."""
        selectivity = _TEXT ** len(conditions.texts) * _OTHER ** len(conditions.rest)
        if conditions.pushed is None or not variable.types:
            return selectivity
        declared = self._declared(variable, variable.types[0])
        return selectivity * _selected(conditions.pushed, declared, max(self.size(declared.table_key), 1))

    def fan_out(self, traversal: Traversal) -> float:
        """The expected number of targets of one start."""
        edge = self.catalog.edges[traversal.edge]
        start = edge.target if traversal.direction == "in" else edge.source
        one_hop = self.size(edge.table_key) / max(self.size(f"node:{start}"), 1)
        one_hop *= 2 if traversal.direction == "both" else 1
        hops = 1 if edge.source != edge.target else min(traversal.hops.maximum, 8)
        reached = float(sum(max(one_hop, 1e-3) ** hop for hop in range(1, hops + 1)))
        return min(reached, max(self.size(f"node:{edge.source}"), self.size(f"node:{edge.target}"), 1))

    def connected_share(self, traversal: Traversal) -> float:
        """The probability that two nodes are connected."""
        edge = self.catalog.edges[traversal.edge]
        end = edge.source if traversal.direction == "in" else edge.target
        return min(1.0, self.fan_out(traversal) / max(self.size(f"node:{end}"), 1))

    def size(self, table_key: str) -> int:
        """The row count of a table, as the manifest records it."""
        return self.snapshot[table_key].row_count

    def _declared(self, variable: Variable, name: str) -> NodeType | EdgeType:
        return self.catalog.edges[name] if variable.kind == "edge" else self.catalog.nodes[name]


def _selected(where: Filter, declared: NodeType | EdgeType, size: int) -> float:
    match where:
        case And(operands):
            share = 1.0
            for each in operands:
                share *= _selected(each, declared, size)
            return share
        case Or(operands):
            return min(1.0, sum(_selected(each, declared, size) for each in operands))
        case Not(operand):
            return max(0.0, 1.0 - _selected(operand, declared, size))
        case Compare(column, "="):
            return 1 / size if is_unique(declared, column) else _EQUAL
        case Compare(_, operator):
            return 1 - _EQUAL if operator == "!=" else _RANGE
        case OneOf(column, values):
            return min(1.0, len(values) * (1 / size if is_unique(declared, column) else _EQUAL))
        case IsNull():
            return _NULL
        case _:
            return _TEXT


def is_unique(declared: NodeType | EdgeType, column: str) -> bool:
    """Whether a column is unique within a type."""
    return column == "id" or declared.rules.key == (column,) or (column,) in declared.rules.unique
