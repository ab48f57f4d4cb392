"""The names of result columns: one rule for lint, for execution, and for every format of a result.

`$p.name` is `p.name`, `$p` is `p`, a parameter is its name, a literal is `literal`, an aggregate is named like its
argument, and anything else like it is written. An alias overrides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph.language.gq.syntax import expressions as written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from omnigraph.language.gq.syntax.tree import Projection

AGGREGATES = ("count", "sum", "avg", "min", "max")
_BINDING = {"*": 6, "/": 6, "%": 6, "+": 5, "-": 5}


def column_names(projections: Iterable[Projection]) -> list[str]:
    """One name for each column, all different. Aliases are taken as they are: equal ones are an error elsewhere."""
    columns = list(projections)
    taken = {each.alias for each in columns if each.alias is not None}
    names = []
    for column in columns:
        name = column.alias if column.alias is not None else _free(column.value, taken)
        taken.add(name)
        names.append(name)
    return names


def _free(value: written.Expression, taken: set[str]) -> str:
    plain = _plain(value)
    if plain not in taken:
        return plain
    if _is_aggregate(value) and (plain := render(value)) not in taken:
        return plain
    return next(name for number in range(2, len(taken) + 3) if (name := f"{plain}_{number}") not in taken)


def _is_aggregate(value: written.Expression) -> bool:
    return isinstance(value, written.Call) and value.function in AGGREGATES and len(value.arguments) == 1


def _plain(value: written.Expression) -> str:
    if isinstance(value, written.LiteralValue | written.ListValue):
        return "literal"
    if isinstance(value, written.Call) and _is_aggregate(value):
        return _plain(value.arguments[0])
    return render(value)


def render(value: written.Expression) -> str:
    """An expression as text, without dollar signs, spelled the same however it was laid out."""
    return _RENDER[type(value)](value)


def _inside(value: written.Expression, binding: int) -> str:
    """An operand, in parentheses when it binds less than what it stands in."""
    text = render(value)
    return f"({text})" if _strength(value) < binding else text


def _strength(value: written.Expression) -> int:
    if isinstance(value, written.Arithmetic):
        return _BINDING[value.operator]
    return _STRENGTHS.get(type(value), 8)


def _literal(value: written.LiteralValue) -> str:
    if value.kind in {"date", "datetime"}:
        return f'{value.kind}("{value.value}")'
    if value.kind == "string":
        return f'"{value.value}"'
    return "null" if value.value is None else str(value.value).lower()


def _call(value: written.Call) -> str:
    arguments = ", ".join(render(each) for each in value.arguments)
    return f"{value.function}({'distinct ' if value.distinct else ''}{arguments})"


def _arithmetic(value: written.Arithmetic) -> str:
    binding = _BINDING[value.operator]
    return f"{_inside(value.left, binding)} {value.operator} {_inside(value.right, binding + 1)}"


def _joined(word: str, binding: int) -> Callable[[Any], str]:
    return lambda value: f" {word} ".join(_inside(each, binding) for each in value.operands)


_STRENGTHS: dict[type[object], int] = {
    written.AnyOf: 1,
    written.AllOf: 2,
    written.NotOf: 3,
    written.Comparison: 4,
    written.NullTest: 4,
    written.Membership: 4,
    written.Negative: 7,
}
_RENDER: dict[type[object], Callable[[Any], str]] = {
    written.LiteralValue: _literal,
    written.ListValue: lambda value: f"[{', '.join(render(each) for each in value.items)}]",
    written.VariableUse: lambda value: value.name,
    written.PropertyUse: lambda value: f"{value.variable}.{value.property}",
    written.NameUse: lambda value: value.name,
    written.Call: _call,
    written.Negative: lambda value: f"-{_inside(value.operand, 7)}",
    written.Arithmetic: _arithmetic,
    written.Comparison: lambda value: f"{_inside(value.left, 5)} {value.operator} {_inside(value.right, 5)}",
    written.NullTest: lambda value: f"{_inside(value.operand, 5)} is {'not ' if value.negated else ''}null",
    written.Membership: lambda value: (
        f"{_inside(value.item, 5)} {'not ' if value.negated else ''}in {_inside(value.items, 5)}"
    ),
    written.AllOf: _joined("and", 3),
    written.AnyOf: _joined("or", 2),
    written.NotOf: lambda value: f"not {_inside(value.operand, 3)}",
}
