"""The steps of a plan over frames. A row is a match: the columns of every variable that is bound so far.

Walks of several hops: from each start, every end once, at its shortest distance.
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
from omnigraph.spark.query.frames import FROM, KEY, TO, column, turned

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
    """The pairs of a start and an end within the bounds. Each hop runs when this is called: only it tells when to stop.

    `starts` has one column, FROM. A start counts as visited; a loop of its own reaches it at the first hop.
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
    """Matches one pattern, step by step; before the first there are no rows."""

    frames: Frames
    builder: SqlBuilder
    variables: dict[str, Variable]

    def run(self, steps: Sequence[Step], rows: Rows = None) -> DataFrame:
        """The matches."""
        found = reduce(lambda before, step: _RUN[type(step)](self, step, before), steps, rows)
        assert found is not None, "a pattern binds at least one variable"
        return found

    # -- one method for each kind of step ------------------------------------------------------------------------------

    def scan(self, step: Scan, rows: Rows) -> DataFrame:
        """Every node of a variable, with each row."""
        nodes = self._selected(step.variable, step.conditions)
        return nodes if rows is None else rows.crossJoin(nodes)

    def expand(self, step: Expand, rows: Rows) -> DataFrame:
        """Each row with each end that the traversal reaches."""
        assert rows is not None
        source = f"{step.source.name}.{KEY}"
        ends = self._ends(step.traversal, step.edge, step.edge_conditions, rows, source)
        near = rows.join(ends, column(source) == column(FROM)).drop(FROM)
        target = self._selected(step.target, step.conditions)
        return near.join(target, column(f"{step.target.name}.{KEY}") == column(TO)).drop(TO)

    def meet(self, step: ExpandInto, rows: Rows) -> DataFrame:
        """The rows whose ends are connected; with a bound edge, each with every such edge."""
        assert rows is not None
        source, target = f"{step.source.name}.{KEY}", f"{step.target.name}.{KEY}"
        ends = self._ends(step.traversal, step.edge, step.edge_conditions, rows, source)
        joined = (column(source) == column(FROM)) & (column(target) == column(TO))
        return rows.join(ends, joined, "left_semi" if step.edge is None else "inner").drop(FROM, TO)

    def keep(self, step: FilterRows, rows: Rows) -> DataFrame:
        """The rows for which all conditions are true. Some are about no variable, and stand before the first."""
        start = self.frames.session.range(1).withColumnRenamed("id", "#start") if rows is None else rows
        return self._where(start, step.conditions)

    def maybe(self, step: OptionalMatch, rows: Rows) -> DataFrame:
        """Each row with what an optional part finds, or once without it."""
        assert rows is not None
        found = self.run(step.steps, rows)
        alone = _without(rows, found, _keys(rows))
        return found.unionByName(alone, allowMissingColumns=True)

    def without(self, step: AntiJoin, rows: Rows) -> DataFrame:
        """The rows for which the inner steps find nothing."""
        assert rows is not None
        keys = [f"{name}.{KEY}" for name in step.correlated if f"{name}.{KEY}" in rows.columns]
        mine = [each for each in rows.columns if each.partition(".")[0] in step.correlated]
        different = rows.select(*(column(each) for each in mine)).dropDuplicates(keys)
        return _without(rows, self.run(step.steps, different), keys)

    def weigh(self, step: CountBranches, rows: Rows) -> DataFrame:
        """Rows with every match of branches; only their being there matters where this stands."""
        assert rows is not None
        return self._branches(step.variable, step.branches, rows)

    def tally(self, step: CountComponent, rows: Rows) -> DataFrame:
        """Rows with every match of an unconnected part."""
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

    def _ends(
        self, traversal: Traversal, edge: Variable | None, conditions: Conditions, rows: DataFrame, source: str
    ) -> DataFrame:
        """The pairs that a traversal connects; of a bound edge, one row for each edge with its properties."""
        if edge is not None:
            return turned(self._selected(edge, conditions), traversal.direction)
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


def _without(rows: DataFrame, found: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The rows whose keys are not among those found; a missing key is equal to a missing key."""
    there = found.select(*(column(each).alias(f"{each}#found") for each in keys)).distinct()
    same = [column(each).eqNullSafe(column(f"{each}#found")) for each in keys]
    return rows.join(there, reduce(lambda left, right: left & right, same), "left_anti")


_RUN: dict[type[Any], Callable[[FrameMatcher, Any, Rows], DataFrame]] = {
    Scan: FrameMatcher.scan,
    Expand: FrameMatcher.expand,
    ExpandInto: FrameMatcher.meet,
    FilterRows: FrameMatcher.keep,
    OptionalMatch: FrameMatcher.maybe,
    AntiJoin: FrameMatcher.without,
    CountBranches: FrameMatcher.weigh,
    CountComponent: FrameMatcher.tally,
}
