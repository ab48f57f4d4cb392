"""Executes the operators of a query plan on Spark frames.

Each row is a match: the columns of all variables bound so far. Traversals of several hops run a breadth-first search
that returns every node once per start, at its shortest distance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f
from sqlglot import exp

from omnigraph.errors import HopCapReached
from omnigraph.expressions.dialects import rendered
from omnigraph.query.plan.operators import (
    AntiJoin,
    CountBranches,
    CountComponent,
    Expand,
    ExpandInto,
    FilterRows,
    OptionalMatch,
    Scan,
)
from omnigraph.spark.query.frames import FROM, KEY, TO, column, oriented

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame

    from omnigraph.expressions.sql import SqlBuilder
    from omnigraph.language.ir.expressions import Expression
    from omnigraph.language.ir.query import Hops, Traversal, Variable
    from omnigraph.query.plan.operators import Conditions, CountedBranch, Step
    from omnigraph.spark.query.frames import Frames

    Rows = DataFrame | None

_NODE = "#node"


def reached(starts: DataFrame, pairs: DataFrame, hops: Hops, edge: str) -> DataFrame:
    """The pairs of start and reached node within the bounds. Hops run eagerly: an empty frontier ends the search.

    `starts` has one column, FROM. A start counts as visited; a self-loop reaches it at the first hop.
    """
    steps = pairs.select(column(FROM).alias(_NODE), column(TO)).localCheckpoint()
    frontier = starts.select(column(FROM), column(FROM).alias(_NODE))
    visited, found = frontier, starts.select(column(FROM), column(FROM).alias(TO)).limit(0)
    for depth in range(1, hops.maximum + 1):
        near = frontier.join(steps, _NODE).select(FROM, TO).distinct().localCheckpoint()
        fresh = near.join(visited.withColumnRenamed(_NODE, TO), [FROM, TO], "left_anti").localCheckpoint()
        if depth >= hops.minimum:
            found = found.unionByName(fresh)
            if depth == 1:
                found = found.unionByName(near.where(column(FROM) == column(TO)))
        frontier = fresh.withColumnRenamed(TO, _NODE)
        if frontier.isEmpty():
            return found
        visited = visited.unionByName(frontier)
    if hops.capped:
        _refuse_more(frontier, visited, steps, hops, edge)
    return found


def _refuse_more(frontier: DataFrame, visited: DataFrame, steps: DataFrame, hops: Hops, edge: str) -> None:
    more = frontier.join(steps, _NODE).select(FROM, TO)
    if not more.join(visited.withColumnRenamed(_NODE, TO), [FROM, TO], "left_anti").isEmpty():
        raise HopCapReached(edge, hops.maximum)


@dataclass(frozen=True)
class FrameMatcher:
    """Matches one pattern, step by step. `rows` is None before the first step."""

    frames: Frames
    builder: SqlBuilder
    variables: dict[str, Variable]

    def run(self, steps: Sequence[Step], rows: Rows = None) -> DataFrame:
        """Run the steps and return the matches."""
        found = reduce(lambda before, step: _RUN[type(step)](self, step, before), steps, rows)
        assert found is not None, "a pattern binds at least one variable"
        return found

    # -- one method for each kind of step ------------------------------------------------------------------------------

    def scan(self, step: Scan, rows: Rows) -> DataFrame:
        """Cross join the rows with the nodes of a variable."""
        nodes = self._selected(step.variable, step.conditions)
        return nodes if rows is None else rows.crossJoin(nodes)

    def expand(self, step: Expand, rows: Rows) -> DataFrame:
        """Join the rows with the nodes that the traversal reaches."""
        assert rows is not None
        source = f"{step.source.name}.{KEY}"
        endpoints = self._endpoints(step.traversal, step.edge, step.edge_conditions, rows, source)
        near = rows.join(endpoints, column(source) == column(FROM)).drop(FROM)
        target = self._selected(step.target, step.conditions)
        return near.join(target, column(f"{step.target.name}.{KEY}") == column(TO)).drop(TO)

    def expand_into(self, step: ExpandInto, rows: Rows) -> DataFrame:
        """Keep rows whose bound endpoints are connected; with an edge variable, one row per connecting edge."""
        assert rows is not None
        source, target = f"{step.source.name}.{KEY}", f"{step.target.name}.{KEY}"
        endpoints = self._endpoints(step.traversal, step.edge, step.edge_conditions, rows, source)
        joined = (column(source) == column(FROM)) & (column(target) == column(TO))
        return rows.join(endpoints, joined, "left_semi" if step.edge is None else "inner").drop(FROM, TO)

    def filter_rows(self, step: FilterRows, rows: Rows) -> DataFrame:
        """Keep rows for which all conditions are true. Conditions without variables may precede the first scan."""
        start = self.frames.session.range(1).withColumnRenamed("id", "#start") if rows is None else rows
        return self._where(start, step.conditions)

    def optional_match(self, step: OptionalMatch, rows: Rows) -> DataFrame:
        """Left outer join with the matches of an optional pattern."""
        assert rows is not None
        found = self.run(step.steps, rows)
        alone = _anti_joined(rows, found, _keys(rows))
        return found.unionByName(alone, allowMissingColumns=True)

    def anti_join(self, step: AntiJoin, rows: Rows) -> DataFrame:
        """Keep rows for which the inner pattern has no match."""
        assert rows is not None
        keys = [f"{name}.{KEY}" for name in step.correlated if f"{name}.{KEY}" in rows.columns]
        mine = [each for each in rows.columns if each.partition(".")[0] in step.correlated]
        different = rows.select(*(column(each) for each in mine)).dropDuplicates(keys)
        return _anti_joined(rows, self.run(step.steps, different), keys)

    def count_branches(self, step: CountBranches, rows: Rows) -> DataFrame:
        """Expand counted branches. Spark materializes the matches that the embedded engine only counts."""
        assert rows is not None
        return self._branches(step.variable, step.branches, rows)

    def count_component(self, step: CountComponent, rows: Rows) -> DataFrame:
        """Cross join the rows with the matches of an unconnected component."""
        nodes = self._selected(step.variable, step.conditions)
        return self._branches(step.variable, step.branches, nodes if rows is None else rows.crossJoin(nodes))

    def _branches(self, variable: Variable, branches: Sequence[CountedBranch], rows: DataFrame) -> DataFrame:
        for each in branches:
            name = each.traversal.edge_variable
            edge = None if name is None else self.variables[name]
            step = Expand(each.traversal, variable, each.target, each.conditions, edge, each.edge_conditions, 0.0)
            rows = self._branches(each.target, each.branches, self.expand(step, rows))
        return rows

    # -- parts of steps ------------------------------------------------------------------------------------------------

    def _selected(self, variable: Variable, conditions: Conditions) -> DataFrame:
        return self._where(self.frames.of(variable, conditions.pushed), conditions.rest)

    def _where(self, rows: DataFrame, conditions: Sequence[Expression]) -> DataFrame:
        if not conditions:
            return rows
        return rows.where(f.expr(rendered(exp.and_(*(self.builder.build(each) for each in conditions)))))

    def _endpoints(
        self, traversal: Traversal, edge: Variable | None, conditions: Conditions, rows: DataFrame, source: str
    ) -> DataFrame:
        """The node pairs that a traversal connects; for a bound edge variable, one row per edge with its properties."""
        if edge is not None:
            return oriented(self._selected(edge, conditions), traversal.direction)
        declared, hops = self.frames.catalog.edges[traversal.edge], traversal.hops
        pairs = self.frames.pairs(traversal.edge, traversal.direction)
        if hops.minimum == 1 and (hops.maximum == 1 or declared.source != declared.target):
            return pairs
        if declared.source != declared.target:
            return pairs.limit(0)
        starts = rows.select(column(source).alias(FROM)).where(column(FROM).isNotNull()).distinct()
        return reached(starts, pairs, hops, traversal.edge)


def _keys(rows: DataFrame) -> list[str]:
    return [each for each in rows.columns if each.endswith(f".{KEY}")]


def _anti_joined(rows: DataFrame, found: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Anti-join on keys, in which null equals null."""
    there = found.select(*(column(each).alias(f"{each}#found") for each in keys)).distinct()
    same = [column(each).eqNullSafe(column(f"{each}#found")) for each in keys]
    return rows.join(there, reduce(lambda left, right: left & right, same), "left_anti")


_RUN: dict[type[Any], Callable[[FrameMatcher, Any, Rows], DataFrame]] = {
    Scan: FrameMatcher.scan,
    Expand: FrameMatcher.expand,
    ExpandInto: FrameMatcher.expand_into,
    FilterRows: FrameMatcher.filter_rows,
    OptionalMatch: FrameMatcher.optional_match,
    AntiJoin: FrameMatcher.anti_join,
    CountBranches: FrameMatcher.count_branches,
    CountComponent: FrameMatcher.count_component,
}
