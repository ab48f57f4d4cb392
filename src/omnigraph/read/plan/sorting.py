"""The conditions of a pattern, sorted by what they are about: one variable, several, or what an optional part finds."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.language.query.expressions import (
    Bm25,
    ColumnValue,
    Expression,
    Nearest,
    Rrf,
    TextMatch,
    contains,
    is_given,
    variables_of,
)
from omnigraph.read.plan.operators import NO_CONDITIONS, Conditions
from omnigraph.relational.pushdown import filter_of
from omnigraph.store.filters import All

if TYPE_CHECKING:
    from omnigraph.language.query.checked import CheckedQuery, Pattern
    from omnigraph.relational.request import RequestValues


@dataclass
class SortedConditions:
    """`of` has what concerns one variable of the pattern alone, `joint` what needs several, `late` what comes after
    optional parts and paths.
    """

    of: dict[str, Conditions] = field(default_factory=dict)
    joint: list[Expression] = field(default_factory=list)
    late: list[Expression] = field(default_factory=list)

    def about(self, variable: str) -> Conditions:
        """The conditions on one variable."""
        return self.of.get(variable, NO_CONDITIONS)


def sort_conditions(pattern: Pattern, outer: frozenset[str], values: RequestValues) -> SortedConditions:
    """Sort the filters of a pattern; `outer` are the variables that are bound around it."""
    own = {each.name for each in pattern.variables if each.kind != "path"}
    alone: dict[str, list[Expression]] = defaultdict(list)
    result = SortedConditions()
    for condition in pattern.filters:
        mentioned = variables_of(condition)
        if not mentioned <= own | outer:
            result.late.append(condition)
        elif len(mentioned) == 1 and mentioned <= own:
            alone[next(iter(mentioned))].append(condition)
        else:
            result.joint.append(condition)
    result.of = {name: _conditions(several, values) for name, several in alone.items()}
    return result


def _conditions(several: list[Expression], values: RequestValues) -> Conditions:
    pushed, texts, rest = [], [], []
    for condition in several:
        if isinstance(condition, TextMatch) and is_given(condition):
            texts.append(condition)
        elif contains(condition, TextMatch, Nearest, Bm25, Rrf):
            rest.append(condition)
        elif (found := filter_of(condition, values)) is not None:
            pushed.append(found)
        else:
            rest.append(condition)
    whole = None if not pushed else pushed[0] if len(pushed) == 1 else All(tuple(pushed))
    return Conditions(whole, tuple(texts), tuple(rest))


def first_ranking(checked: CheckedQuery) -> Nearest | Bm25 | Rrf | None:
    """The ranking that is the first key of the order."""
    if not checked.order:
        return None
    value = checked.order[0].value
    value = checked.columns[value.index].value if isinstance(value, ColumnValue) else value
    return value if isinstance(value, Nearest | Bm25 | Rrf) else None
