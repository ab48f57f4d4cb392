"""Which variables a result is made from, and when no two matches can fall into one group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.language.query.expressions import (
    Aggregate,
    EntityValue,
    Expression,
    PropertyValue,
    children,
    contains,
    variables_of,
)
from omnigraph.read.plan.estimates import is_unique

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.language.query.checked import CheckedQuery, Variable
    from omnigraph.language.schema.catalog import Catalog

# How the name of a `$_` begins; no text can spell it.
_ANONYMOUS = "_#"


def needed_variables(checked: CheckedQuery) -> frozenset[str]:
    """The variables whose values the result or its order needs; of the others only the number of matches matters."""
    return variables_of(*needed_values(checked)) | {each.name for each in deciding(checked)}


def needed_values(checked: CheckedQuery) -> list[Expression]:
    """What the result is computed from. A count of what is there in every match needs nothing."""
    sure = frozenset(each.name for each in checked.pattern.variables)
    made = [*(each.value for each in checked.columns), *checked.having, *(each.value for each in checked.order)]
    return [part for each in made for part in _without_sure_counts(each, sure)]


def deciding(checked: CheckedQuery) -> list[Variable]:
    """The variables whose ids decide between rows that the order leaves equal, by name."""
    if checked.aggregated or checked.distinct or not checked.order:
        return []
    named = [each for each in checked.variables.values() if not each.name.startswith(_ANONYMOUS)]
    return sorted((each for each in named if each.kind != "path"), key=lambda each: each.name)


def is_sure_count(expression: Expression, sure: frozenset[str]) -> bool:
    """A count of what is there in every match, so that it need not be looked at."""
    if not isinstance(expression, Aggregate) or expression.function != "count" or expression.distinct:
        return False
    argument = expression.argument
    if isinstance(argument, EntityValue):
        return argument.variable in sure
    return isinstance(argument, PropertyValue) and argument.variable in sure and not argument.type.nullable


def _without_sure_counts(expression: Expression, sure: frozenset[str]) -> Iterator[Expression]:
    if is_sure_count(expression, sure):
        return
    if isinstance(expression, Aggregate) or not contains(expression, Aggregate):
        yield expression
        return
    for child in children(expression):
        yield from _without_sure_counts(child, sure)


def grouping_variables(checked: CheckedQuery, catalog: Catalog) -> list[str]:
    """Variables of which no two nodes fall into one group, because a group column tells them apart."""
    keys = [each.value for each in checked.columns if not contains(each.value, Aggregate)]
    found = checked.variables.values()
    return [each.name for each in found if any(_tells_apart(key, each, catalog) for key in keys)]


def is_plain_count(checked: CheckedQuery) -> bool:
    """Whether all that is asked is how many matches there are."""
    sure = frozenset(each.name for each in checked.pattern.variables)
    counts = all(is_sure_count(each.value, sure) for each in checked.columns)
    return counts and not (checked.having or checked.order)


def _tells_apart(key: Expression, variable: Variable, catalog: Catalog) -> bool:
    if isinstance(key, EntityValue):
        return key.variable == variable.name
    if not isinstance(key, PropertyValue) or key.variable != variable.name or len(variable.types) != 1:
        return False
    if variable.kind != "node":
        return variable.kind == "edge" and key.property == "id"
    return not key.type.nullable and is_unique(catalog.nodes[variable.types[0]], key.property)
