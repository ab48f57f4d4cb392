"""Plans a checked pattern: chooses where to start, in which order to expand, and what to count instead of listing.

The search is greedy: it scans the variable with the fewest expected rows, then always follows the cheapest traversal
from what is bound, and filters as soon as the variables of a condition are bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.language.ir.expressions import variables_of
from omnigraph.query.plan.conditions import sort_conditions
from omnigraph.query.plan.count_reduction import reduce_pattern, reversed_traversal
from omnigraph.query.plan.operators import (
    NO_CONDITIONS,
    AntiJoin,
    CountBranches,
    CountComponent,
    CountedBranch,
    Expand,
    ExpandInto,
    FilterRows,
    FindShortestPath,
    OptionalMatch,
    Scan,
    Step,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.expressions.pushdown import RequestValues
    from omnigraph.language.ir.expressions import Expression
    from omnigraph.language.ir.query import Pattern, Traversal, Variable
    from omnigraph.query.plan.conditions import SortedConditions
    from omnigraph.query.plan.count_reduction import Reduced
    from omnigraph.query.plan.estimates import Estimates


def visible(pattern: Pattern) -> list[Variable]:
    """The variables that a pattern and its optional parts introduce."""
    return [*pattern.variables, *(each for optional in pattern.optionals for each in visible(optional))]


def _all_branches(branches: tuple[CountedBranch, ...]) -> list[CountedBranch]:
    return [each for branch in branches for each in (branch, *_all_branches(branch.branches))]


@dataclass(frozen=True)
class Planner:
    """Plans the patterns of one request."""

    estimates: Estimates
    values: RequestValues

    def plan(
        self, pattern: Pattern, bound: Mapping[str, Variable], needed: frozenset[str], rows: float = 1.0
    ) -> tuple[Step, ...]:
        """The operators of a pattern. Variables that are not `needed` are only counted."""
        return _PatternPlan(self, pattern, dict(bound), needed, rows).steps()


# A leaf from which fewer than one of so many neighbours is reached is where the match starts, and is not counted.
_FEW = 10


class _PatternPlan:
    """The plan of one pattern while it is being built."""

    def __init__(
        self, planner: Planner, pattern: Pattern, bound: dict[str, Variable], needed: frozenset[str], rows: float
    ) -> None:
        self.planner = planner
        self.estimates = planner.estimates
        self.pattern = pattern
        self.variables = {**bound, **{each.name: each for each in pattern.variables}}
        self.bound = set(bound)
        self.rows = rows
        self.operators: list[Step] = []
        self.conditions: SortedConditions = sort_conditions(pattern, frozenset(bound), planner.values)
        self.needed = needed | self._needed_inside()
        self.reduced: Reduced = reduce_pattern(
            pattern.traversals, self.variables, self._own() - self.bound, self.needed, self.conditions, self
        )

    def steps(self) -> tuple[Step, ...]:
        """Build the operators in order."""
        self._apply_ready()
        for name in sorted(self.bound):
            self._count_branches(name)
        for name in self.reduced.alone:
            self._count_component(name)
        self._match_nodes()
        for path in self.pattern.paths:
            self._add(FindShortestPath(path, self.variables[path.source], self.variables[path.target], self.rows))
            self.bound.add(path.variable)
        self._optionals()
        if self.conditions.late:
            self._add(FilterRows(tuple(self.conditions.late), self.rows))
        self._negations()
        return tuple(self.operators)

    # -- which variables are needed, and what counting them costs ------------------------------------------------------

    def _own(self) -> frozenset[str]:
        return frozenset(each.name for each in self.pattern.variables)

    def _needed_inside(self) -> frozenset[str]:
        by_conditions = variables_of(*self.conditions.joint, *self.conditions.late)
        by_paths = {end for path in self.pattern.paths for end in (path.source, path.target)}
        # An unbounded traversal that reaches the hop cap fails; that must not depend on where it starts.
        by_paths |= {each.source for each in self.pattern.traversals if each.hops.capped}
        inner = (*self.pattern.optionals, *self.pattern.negations)
        return by_conditions | by_paths | frozenset(name for each in inner for name in each.outer)

    def is_start(self, towards: Traversal) -> bool:
        """Whether so few neighbours are reached from a leaf that the match should start there."""
        starts, targets = self._expected(towards.source), self._expected(towards.target)
        if towards.hops.maximum > 1:
            return starts < targets
        return starts * self.estimates.fan_out(towards) * _FEW < targets

    def work(self, root: str, traversals: tuple[Traversal, ...]) -> float:
        """About how many edges are read when a component is counted from one of its variables."""
        return self._expected(root) + self._work_from(root, self._expected(root), traversals)

    def _work_from(self, name: str, rows: float, traversals: tuple[Traversal, ...]) -> float:
        total = 0.0
        for each in traversals:
            if name not in (each.source, each.target):
                continue
            towards = each if each.source == name else reversed_traversal(each)
            others = tuple(other for other in traversals if other is not each)
            goes_on = any(towards.target in (other.source, other.target) for other in others)
            if not goes_on and not self.conditions.about(towards.target):
                # Only its degree is needed, and that is not read edge by edge.
                continue
            expanded = rows * self.estimates.fan_out(towards)
            selectivity = self.estimates.share(self.variables[towards.target], self.conditions.about(towards.target))
            total += expanded + self._work_from(towards.target, expanded * selectivity, others)
        return total

    # -- nodes and traversals ------------------------------------------------------------------------------------------

    def _match_nodes(self) -> None:
        traversals = list(self.reduced.traversals)
        unbound = self._unbound(traversals)
        while traversals or unbound:
            self._expand_into_bound(traversals)
            step = self._cheapest(traversals)
            if step is not None:
                traversals.remove(step)
                self._expand(step if step.source in self.bound else reversed_traversal(step))
            elif unbound := [name for name in self._unbound(traversals) if name not in self.bound]:
                self._scan(min(unbound, key=lambda name: (self._expected(name), name)))
            unbound = [name for name in unbound if name not in self.bound]

    def _unbound(self, traversals: list[Traversal]) -> list[str]:
        hanging = {branch.target.name for each in self.reduced.branches.values() for branch in _all_branches(each)}
        endpoints = {end for each in traversals for end in (each.source, each.target)}
        nodes = {each.name for each in self.pattern.variables if each.kind == "node"}
        return sorted((nodes | endpoints) - hanging - self.bound - set(self.reduced.alone))

    def _expected(self, name: str) -> float:
        return self.estimates.rows(self.variables[name], self.conditions.about(name))

    def _expand_into_bound(self, traversals: list[Traversal]) -> None:
        for each in [each for each in traversals if {each.source, each.target} <= self.bound]:
            traversals.remove(each)
            self.rows *= self.estimates.connected_share(each)
            edge = self._edge(each)
            about = self.conditions.about(each.edge_variable or "")
            endpoints = self.variables[each.source], self.variables[each.target]
            self._bind(ExpandInto(each, *endpoints, edge, about, self.rows), *([edge.name] if edge else []))

    def _cheapest(self, traversals: list[Traversal]) -> Traversal | None:
        ready = [each for each in traversals if each.source in self.bound or self._can_reverse(each)]
        return min(ready, key=self._cost, default=None)

    def _can_reverse(self, traversal: Traversal) -> bool:
        return traversal.target in self.bound and not traversal.hops.capped

    def _cost(self, traversal: Traversal) -> float:
        towards = traversal if traversal.source in self.bound else reversed_traversal(traversal)
        target = self.variables[towards.target]
        selectivity = self.estimates.share(target, self.conditions.about(target.name))
        if target.name in self.estimates.chosen_counts:
            selectivity = min(
                selectivity,
                self.estimates.chosen_counts[target.name] / max(self.estimates.rows(target, NO_CONDITIONS), 1),
            )
        return self.estimates.fan_out(towards) * selectivity

    def _expand(self, traversal: Traversal) -> None:
        self.rows *= self._cost(traversal)
        source, target = self.variables[traversal.source], self.variables[traversal.target]
        edge = self._edge(traversal)
        about = self.conditions.about(traversal.edge_variable or "")
        step = Expand(traversal, source, target, self.conditions.about(target.name), edge, about, self.rows)
        self._bind(step, target.name, *([edge.name] if edge else []))

    def _scan(self, name: str) -> None:
        self.rows *= self._expected(name)
        self._bind(Scan(self.variables[name], self.conditions.about(name), self.rows), name)

    def _edge(self, traversal: Traversal) -> Variable | None:
        return None if traversal.edge_variable is None else self.variables[traversal.edge_variable]

    def _bind(self, step: Step, *names: str) -> None:
        self._add(step)
        self.bound.update(names)
        self._apply_ready()
        for name in names:
            self._count_branches(name)

    def _count_branches(self, name: str) -> None:
        if branches := self.reduced.at(name):
            self._add(CountBranches(self.variables[name], branches, self.rows))

    def _count_component(self, name: str) -> None:
        self._add(CountComponent(self.variables[name], self.conditions.about(name), self.reduced.at(name), self.rows))
        self.bound.add(name)

    def _apply_ready(self) -> None:
        ready: list[Expression] = [each for each in self.conditions.joint if variables_of(each) <= self.bound]
        if ready:
            self.conditions.joint = [each for each in self.conditions.joint if each not in ready]
            self.rows *= 0.5
            self._add(FilterRows(tuple(ready), self.rows))

    # -- the rest ------------------------------------------------------------------------------------------------------

    def _optionals(self) -> None:
        for optional in self.pattern.optionals:
            inside = visible(optional)
            needed_inside = self.needed & {each.name for each in inside}
            outer = {name: self.variables[name] for name in self.bound if name in self.variables}
            inner = self.planner.plan(optional, outer, needed_inside, self.rows)
            introduced = tuple(each for each in inside if each.name in needed_inside)
            self.variables.update({each.name: each for each in inside})
            self._add(OptionalMatch(inner, tuple(inside), introduced, self.rows))
            self.bound.update(each.name for each in introduced)

    def _negations(self) -> None:
        for negation in self.pattern.negations:
            outer = {name: self.variables[name] for name in self.bound if name in self.variables}
            inner = self.planner.plan(negation, outer, frozenset(), self.rows)
            self.rows *= 0.5
            self._add(AntiJoin(inner, tuple(visible(negation)), tuple(sorted(negation.outer)), self.rows))

    def _add(self, step: Step) -> None:
        self.operators.append(step)
