"""Runs the operators of a plan as a chain of generators over batches of matches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from omnigraph.kernels.arrays import distinct
from omnigraph.query.exec.bindings import NOTHING, START, Bindings, joined
from omnigraph.query.exec.expand import expand, expand_into
from omnigraph.query.exec.path_counts import Weights
from omnigraph.query.exec.shortest_paths import find_paths
from omnigraph.query.exec.variable_filter import VariableFilter
from omnigraph.query.plan.operators import (
    AntiJoin,
    CountBranches,
    CountComponent,
    Expand,
    ExpandInto,
    FilterRows,
    FindShortestPath,
    OptionalMatch,
    Scan,
    Step,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from omnigraph.query.columns.table_columns import Int64Array
    from omnigraph.query.exec.scope import Scope

# A streamed scan of a larger table reads it in windows instead of caching its columns.
WINDOWED = 500_000
STREAMED_ROWS = 65_536
# While a nested pattern runs: the number of the outer row that each inner row belongs to.
_TAG = "#tag"


@dataclass(frozen=True)
class Matcher:
    """Runs the operators of one pattern."""

    scope: Scope

    def run(self, steps: tuple[Step, ...], rows: Bindings = START) -> Iterator[Bindings]:
        """Chain the operators; matches come in batches as the caller reads them."""
        batches: Iterator[Bindings] = iter((rows,))
        for step in steps:
            batches = self._stepping(step, batches)
        return batches

    def _stepping(self, step: Step, batches: Iterator[Bindings]) -> Iterator[Bindings]:
        read = self.scope.read
        for batch in batches:
            if not batch.count:
                continue
            made = _RUN[type(step)](self, step, batch)
            while True:
                read.deadline.check()
                with read.profile.timing(step) as measured:
                    rows = next(made, None)
                    measured.rows += 0 if rows is None else rows.count
                if rows is None:
                    break
                yield rows

    # -- one method for each operator ----------------------------------------------------------------------------------

    def scan(self, step: Scan, rows: Bindings) -> Iterator[Bindings]:
        """Combine each row with every node that the scan finds."""
        if (windows := self._windows(step, rows)) is not None:
            yield from (Bindings(len(keys), {step.variable.name: keys}) for keys in windows)
            return
        keys = VariableFilter(self.scope, step.variable, step.conditions).keys()
        if rows.count == 1:
            yield from _batches(_cross_product(rows, step.variable.name, keys), self._batch_rows)
            return
        most = max(1, self._batch_rows // max(len(keys), 1))
        for first in range(0, rows.count, most):
            yield _cross_product(rows.slice(first, first + most), step.variable.name, keys)

    def _windows(self, step: Scan, rows: Bindings) -> Iterator[Int64Array] | None:
        """The nodes of a large table in windows, for a plan that begins with this scan and streams; else None."""
        read, bound = self.scope.read, self.scope.read.bound(step.variable)
        names = read.streamed.get(step.variable.name)
        begins = rows.count == 1 and not rows.keys and rows.weight is None
        if not names or not begins or not bound.is_plain or step.conditions.texts or step.conditions.rest:
            return None
        table = bound.tables[0]
        if step.variable.name in read.chosen or table.size <= WINDOWED or table.has_cached(names):
            return None
        read.profile.note(f"{table.name}: read in batches")
        return table.windows(names, step.conditions.pushed, STREAMED_ROWS)

    def expand(self, step: Expand, rows: Bindings) -> Iterator[Bindings]:
        """Follow a traversal to new nodes."""
        yield from expand(self.scope, step, rows)

    def expand_into(self, step: ExpandInto, rows: Bindings) -> Iterator[Bindings]:
        """Filter rows by whether their bound endpoints are connected."""
        yield expand_into(self.scope, step, rows)

    def count_branches(self, step: CountBranches, rows: Bindings) -> Iterator[Bindings]:
        """Multiply the weight of each row by the number of matches of its branches."""
        yield rows.times(Weights(self.scope).of(step.variable, step.branches, rows.keys[step.variable.name]))

    def count_component(self, step: CountComponent, rows: Bindings) -> Iterator[Bindings]:
        """Multiply every row by the number of matches of an unconnected component."""
        keys = VariableFilter(self.scope, step.variable, step.conditions).keys()
        ways = int(Weights(self.scope).of(step.variable, step.branches, keys).sum())
        yield rows.times(np.full(rows.count, ways, np.int64))

    def filter_rows(self, step: FilterRows, rows: Bindings) -> Iterator[Bindings]:
        """Filter rows by conditions."""
        yield rows.where(self.scope.satisfies(step.conditions, rows))

    def find_path(self, step: FindShortestPath, rows: Bindings) -> Iterator[Bindings]:
        """Bind a shortest path; rows without one are dropped."""
        yield find_paths(self.scope, step, rows)

    def optional_match(self, step: OptionalMatch, rows: Bindings) -> Iterator[Bindings]:
        """Left join with a nested pattern: rows without a match keep -1 for its variables."""
        inner = Matcher(self.scope.inside(step.variables))
        names = [each.name for each in step.introduces]
        tagged = Bindings(rows.count, {**rows.keys, _TAG: np.arange(rows.count)})
        found = [_only(each, _TAG, *names) for each in inner.run(step.steps, tagged)]
        matched = joined(found) if found else Bindings(0, {name: np.zeros(0, np.int64) for name in (_TAG, *names)})
        alone = np.setdiff1d(np.arange(rows.count), matched.keys[_TAG])
        missing = Bindings(len(alone), {_TAG: alone, **{name: np.full(len(alone), NOTHING) for name in names}})
        whole = joined([matched, missing])
        whole = whole.take(np.argsort(whole.keys[_TAG], kind="stable"))
        again = rows.take(whole.keys[_TAG])
        result = again.bind(**{name: whole.keys[name] for name in names})
        yield result if whole.weight is None else result.times(whole.weight)

    def anti_join(self, step: AntiJoin, rows: Bindings) -> Iterator[Bindings]:
        """Anti-join: keep the rows for which a nested pattern has no match. It runs once per distinct outer binding."""
        names = [name for name in step.correlated if name in rows.keys]
        different, inverse = _distinct(rows, names)
        inner = Matcher(self.scope.inside(step.variables))
        tagged = Bindings(different.count, {**different.keys, _TAG: np.arange(different.count)})
        free = np.ones(different.count, np.bool_)
        for found in inner.run(step.steps, tagged):
            free[found.keys[_TAG]] = False
        yield rows.where(free[inverse])

    @property
    def _batch_rows(self) -> int:
        return self.scope.read.options.batch_rows


_RUN: dict[type[Any], Callable[[Matcher, Any, Bindings], Iterator[Bindings]]] = {
    Scan: Matcher.scan,
    Expand: Matcher.expand,
    ExpandInto: Matcher.expand_into,
    CountBranches: Matcher.count_branches,
    CountComponent: Matcher.count_component,
    FilterRows: Matcher.filter_rows,
    FindShortestPath: Matcher.find_path,
    OptionalMatch: Matcher.optional_match,
    AntiJoin: Matcher.anti_join,
}


def _cross_product(rows: Bindings, name: str, keys: np.ndarray[Any, Any]) -> Bindings:
    if rows.count == 1 and not rows.keys and rows.weight is None:
        return Bindings(len(keys), {name: keys})
    repeated = rows.take(np.repeat(np.arange(rows.count), len(keys)))
    return repeated.bind(**{name: np.tile(keys, rows.count)})


def _batches(rows: Bindings, most: int) -> Iterator[Bindings]:
    for first in range(0, max(rows.count, 1), most):
        yield rows.slice(first, first + most)


def _only(rows: Bindings, *names: str) -> Bindings:
    return Bindings(rows.count, {name: rows.keys[name] for name in names}, rows.weight)


def _distinct(rows: Bindings, names: list[str]) -> tuple[Bindings, np.ndarray[Any, Any]]:
    """The distinct combinations of some variables, and which of them each row has."""
    if not names:
        return Bindings(1), np.zeros(rows.count, np.int64)
    if len(names) == 1:
        values, inverse = distinct(rows.keys[names[0]])
        return Bindings(len(values), {names[0]: values}), inverse
    stacked = np.stack([rows.keys[name] for name in names])
    values, inverse = np.unique(stacked, axis=1, return_inverse=True)
    return Bindings(values.shape[1], dict(zip(names, values, strict=True))), inverse.reshape(-1)
