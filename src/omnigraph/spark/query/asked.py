"""What a query needs of its variables, and what in it Spark cannot do."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from omnigraph.language.query.expressions import (
    Bm25,
    EntityValue,
    Expression,
    Nearest,
    PropertyValue,
    Rrf,
    TextMatch,
    contains,
    walk,
)
from omnigraph.language.query.types import STRING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.language.query.checked import CheckedQuery, Pattern

# What tells a node or an edge from all others of the graph, as a property that no schema can declare.
KEY = "#key"
_IDENTITY = frozenset({KEY, "id"})


def refusal(checked: CheckedQuery) -> str | None:
    """Why a query cannot run on Spark; None when it can."""
    for each in _expressions(checked):
        if contains(each, TextMatch, Nearest, Bm25, Rrf):
            return "search"
    return "shortest paths" if any(each.paths for each in _patterns(checked.pattern)) else None


def by_key(checked: CheckedQuery) -> CheckedQuery:
    """The same query, in which whole entities are compared, tested and counted by their keys."""
    columns = tuple(replace(each, value=_column(each.value)) for each in checked.columns)
    order = tuple(replace(each, value=_column(each.value)) for each in checked.order)
    having = tuple(_keyed(each) for each in checked.having)
    return replace(checked, pattern=_pattern(checked.pattern), columns=columns, having=having, order=order)


def properties(checked: CheckedQuery) -> dict[str, set[str]]:
    """The stored properties that are asked of each variable, by name."""
    found: dict[str, set[str]] = {}
    for expression in _expressions(checked):
        for each in walk(expression):
            if isinstance(each, PropertyValue) and each.property not in _IDENTITY:
                found.setdefault(each.variable, set()).add(each.property)
    return found


def wholes(checked: CheckedQuery) -> set[str]:
    """The variables that are returned or ordered by as a whole."""
    values = [*(each.value for each in checked.columns), *(each.value for each in checked.order)]
    return {each.variable for each in values if isinstance(each, EntityValue)}


def _column(value: Expression) -> Expression:
    return value if isinstance(value, EntityValue) else _keyed(value)


def _pattern(pattern: Pattern) -> Pattern:
    return replace(
        pattern,
        filters=tuple(_keyed(each) for each in pattern.filters),
        optionals=tuple(_pattern(each) for each in pattern.optionals),
        negations=tuple(_pattern(each) for each in pattern.negations),
    )


def _keyed(value: Any) -> Any:
    if isinstance(value, EntityValue):
        return PropertyValue(value.variable, KEY, STRING)
    if isinstance(value, tuple):
        return tuple(_keyed(each) for each in value)
    if not is_dataclass(value) or not isinstance(value, Expression):
        return value
    changed = {each.name: _keyed(getattr(value, each.name)) for each in fields(value) if each.name != "type"}
    return replace(value, **{name: new for name, new in changed.items() if new is not getattr(value, name)})


def _patterns(pattern: Pattern) -> Iterator[Pattern]:
    yield pattern
    for inner in (*pattern.optionals, *pattern.negations):
        yield from _patterns(inner)


def _expressions(checked: CheckedQuery) -> Iterator[Expression]:
    for pattern in _patterns(checked.pattern):
        yield from pattern.filters
    yield from (each.value for each in checked.columns)
    yield from checked.having
    yield from (each.value for each in checked.order)
