"""Finds the parts of a pattern of which only the number of matches matters; they are counted, never listed.

A variable that the result does not need, and that only one traversal connects to the rest, is a leaf: it becomes a
counted branch of its neighbour, and so on inwards. What remains is what the result is computed from.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Protocol

from omnigraph.query.plan.operators import CountedBranch

if TYPE_CHECKING:
    from omnigraph.language.ir.query import Traversal, Variable
    from omnigraph.query.plan.conditions import SortedConditions

_TURNED: dict[str, Literal["out", "in", "both"]] = {"out": "in", "in": "out", "both": "both"}


def reversed_traversal(traversal: Traversal) -> Traversal:
    """The same traversal, followed in the opposite direction."""
    direction = _TURNED[traversal.direction]
    return replace(traversal, source=traversal.target, target=traversal.source, direction=direction)


class Costs(Protocol):
    """The planner's estimates, as far as the reduction needs them."""

    def work(self, root: str, traversals: tuple[Traversal, ...]) -> float:
        """About how many edges are read when a component is counted from one of its variables."""

    def is_start(self, towards: Traversal) -> bool:
        """Whether so few neighbours are reached from a leaf that the match should start there."""


@dataclass
class Reduced:
    """What remains of a pattern: traversals to follow, and counted branches by variable.

    `alone` are the variables from which whole components are counted, because nothing else of them is needed.
    """

    traversals: list[Traversal]
    branches: dict[str, tuple[CountedBranch, ...]] = field(default_factory=dict)
    alone: list[str] = field(default_factory=list)

    def at(self, variable: str) -> tuple[CountedBranch, ...]:
        """The counted branches at a variable."""
        return self.branches.get(variable, ())


def reduce_pattern(
    traversals: tuple[Traversal, ...],
    variables: dict[str, Variable],
    own: frozenset[str],
    needed: frozenset[str],
    conditions: SortedConditions,
    costs: Costs,
) -> Reduced:
    """Remove leaves until each remaining one is needed, or bound outside, or the best start.

    A component of which nothing is needed keeps one variable: the one from which counting reads least.
    """
    left = Reduced(list(traversals))
    removable = {name for name in own if variables[name].kind == "node" and name not in needed}
    centres = _centres(traversals, own, needed, variables, costs)
    listed = own - {name for centre in centres for name in _connected(centre, traversals)}
    while (leaf := _leaf(left.traversals, removable - centres, needed)) is not None:
        name, traversal = leaf
        towards = traversal if traversal.source == name else reversed_traversal(traversal)
        if name in listed and towards.target in own and costs.is_start(towards):
            removable.discard(name)
            continue
        left.traversals.remove(traversal)
        _hang(left, name, traversal, variables, conditions)
    connected = {end for each in left.traversals for end in (each.source, each.target)}
    left.alone = sorted((removable & centres) - connected)
    return left


def _leaf(traversals: list[Traversal], removable: set[str], needed: frozenset[str]) -> tuple[str, Traversal] | None:
    for name in sorted(removable):
        incident = [each for each in traversals if name in (each.source, each.target)]
        if len(incident) != 1 or incident[0].source == incident[0].target:
            continue
        if incident[0].edge_variable not in needed:
            return name, incident[0]
    return None


def _hang(
    left: Reduced, name: str, traversal: Traversal, variables: dict[str, Variable], conditions: SortedConditions
) -> None:
    towards = traversal if traversal.target == name else reversed_traversal(traversal)
    edge = conditions.about(traversal.edge_variable) if traversal.edge_variable else conditions.about("")
    branch = CountedBranch(towards, variables[name], conditions.about(name), edge, left.branches.pop(name, ()))
    left.branches[towards.source] = (*left.at(towards.source), branch)


def _centres(
    traversals: tuple[Traversal, ...],
    own: frozenset[str],
    needed: frozenset[str],
    variables: dict[str, Variable],
    costs: Costs,
) -> set[str]:
    """One variable of each component of which nothing is needed: the one from which counting reads least."""
    nodes = {name for name in own if variables[name].kind == "node"}
    chosen, seen = set(), set()
    for name in sorted(nodes):
        if name in seen:
            continue
        component = _connected(name, traversals)
        seen |= component
        edges = {each.edge_variable for each in traversals if each.source in component}
        if component <= nodes and not (component | edges) & needed:
            chosen.add(min(sorted(component), key=lambda each: costs.work(each, traversals)))
    return chosen


def _connected(start: str, traversals: tuple[Traversal, ...]) -> set[str]:
    found, grows = {start}, True
    while grows:
        reached = {
            end for each in traversals if {each.source, each.target} & found for end in (each.source, each.target)
        }
        grows = not reached <= found
        found |= reached
    return found
