"""Analyses what a query needs: the variables and values of its result, and the conditions of its pattern by variable.

Conditions are sorted by when they can be evaluated: on one variable alone, on several, or only after optional parts and
paths. Variables that the result does not need are only counted, and some counts need no value at all.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.expressions.pushdown import filter_of
from omnigraph.language.ir.expressions import (
    Aggregate,
    Bm25,
    ColumnValue,
    EntityValue,
    Expression,
    Nearest,
    PropertyValue,
    Rrf,
    TextMatch,
    children,
    contains,
    is_given,
    variables_of,
)
from omnigraph.query.plan.estimates import is_unique
from omnigraph.query.plan.operators import NO_CONDITIONS, Conditions
from omnigraph.storage.filters.model import And

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.expressions.pushdown import RequestValues
    from omnigraph.language.ir.query import CheckedQuery, Pattern, Variable

# The prefix of the name of a `$_` variable; no query text can spell it.
_ANONYMOUS = "_#"


def needed_variables(checked: CheckedQuery) -> frozenset[str]:
    """The variables whose values the result or its order needs; all others are only counted."""
    return variables_of(*needed_values(checked)) | {each.name for each in deciding(checked)}


def needed_values(checked: CheckedQuery) -> list[Expression]:
    """The expressions that the result is computed from. A count of what is never null needs none."""
    sure = frozenset(each.name for each in checked.pattern.variables)
    made = [*(each.value for each in checked.columns), *checked.having, *(each.value for each in checked.order)]
    return [value for each in made for value in _excluding_sure_counts(each, sure)]


def deciding(checked: CheckedQuery) -> list[Variable]:
    """The variables whose ids break ties that the order leaves, by name."""
    if checked.aggregated or checked.distinct or not checked.order:
        return []
    named = [each for each in checked.variables.values() if not each.name.startswith(_ANONYMOUS)]
    return sorted((each for each in named if each.kind != "path"), key=lambda each: each.name)


def is_sure_count(expression: Expression, sure: frozenset[str]) -> bool:
    """Whether it counts something that is never null, so that the value need not be read."""
    if not isinstance(expression, Aggregate) or expression.function != "count" or expression.distinct:
        return False
    argument = expression.argument
    if isinstance(argument, EntityValue):
        return argument.variable in sure
    return isinstance(argument, PropertyValue) and argument.variable in sure and not argument.type.nullable


def _excluding_sure_counts(expression: Expression, sure: frozenset[str]) -> Iterator[Expression]:
    if is_sure_count(expression, sure):
        return
    if isinstance(expression, Aggregate) or not contains(expression, Aggregate):
        yield expression
        return
    for child in children(expression):
        yield from _excluding_sure_counts(child, sure)


def grouping_variables(checked: CheckedQuery, catalog: Catalog) -> list[str]:
    """Variables of which no two nodes fall into one group, because a group key is unique to the node."""
    keys = [each.value for each in checked.columns if not contains(each.value, Aggregate)]
    found = checked.variables.values()
    return [each.name for each in found if any(_identifies(key, each, catalog) for key in keys)]


def is_plain_count(checked: CheckedQuery) -> bool:
    """Whether the result is nothing but the number of matches."""
    sure = frozenset(each.name for each in checked.pattern.variables)
    counts = all(is_sure_count(each.value, sure) for each in checked.columns)
    return counts and not (checked.having or checked.order)


def _identifies(key: Expression, variable: Variable, catalog: Catalog) -> bool:
    if isinstance(key, EntityValue):
        return key.variable == variable.name
    if not isinstance(key, PropertyValue) or key.variable != variable.name or len(variable.types) != 1:
        return False
    if variable.kind != "node":
        return variable.kind == "edge" and key.property == "id"
    return not key.type.nullable and is_unique(catalog.nodes[variable.types[0]], key.property)


@dataclass
class SortedConditions:
    """The conditions of a pattern by what they need: `of` one variable of the pattern, `joint` several variables,
    `late` what optional parts and paths bind.
    """

    of: dict[str, Conditions] = field(default_factory=dict)
    joint: list[Expression] = field(default_factory=list)
    late: list[Expression] = field(default_factory=list)

    def about(self, variable: str) -> Conditions:
        """The conditions on one variable."""
        return self.of.get(variable, NO_CONDITIONS)


def sort_conditions(pattern: Pattern, outer: frozenset[str], values: RequestValues) -> SortedConditions:
    """Sort the filters of a pattern; `outer` are the variables that are bound outside of it."""
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
    whole = None if not pushed else pushed[0] if len(pushed) == 1 else And(tuple(pushed))
    return Conditions(whole, tuple(texts), tuple(rest))


def first_ranking(checked: CheckedQuery) -> Nearest | Bm25 | Rrf | None:
    """The ranking that is the first key of the order, if there is one."""
    if not checked.order:
        return None
    value = checked.order[0].value
    value = checked.columns[value.index].value if isinstance(value, ColumnValue) else value
    return value if isinstance(value, Nearest | Bm25 | Rrf) else None
