"""Operators in words, for people who want to know how a query will run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph.language.query.expressions import (
    Aggregate,
    AllOf,
    AnyOf,
    Arithmetic,
    Bm25,
    ColumnValue,
    Comparison,
    Constant,
    EntityValue,
    Expression,
    Membership,
    Nearest,
    Negative,
    NotOf,
    Now,
    NullTest,
    ParameterValue,
    PropertyValue,
    Rrf,
    TextMatch,
)
from omnigraph.read.plan.operators import Expand, FindPath, Keep, Maybe, Meet, Scan, Tally, Weigh, Without
from omnigraph.store import filters

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.language.query.checked import Traversal, Variable
    from omnigraph.read.plan.operators import Branch, Conditions, Step


def described(step: Step) -> str:
    """One operator as a line."""
    return _STEPS[type(step)](step)


def inner_steps(step: Step) -> tuple[Step, ...]:
    """The operators inside of one."""
    return step.steps if isinstance(step, Maybe | Without) else ()


def _scan(step: Scan) -> str:
    return f"scan {_bound(step.variable)}{_where(step.conditions)}"


def _expand(step: Expand) -> str:
    edge = _where(step.edge_conditions)
    return f"expand {_walk(step.traversal)} as {_bound(step.target)}{_where(step.conditions)}{edge}"


def _meet(step: Meet) -> str:
    return f"meet {_walk(step.traversal)}{_where(step.edge_conditions)}"


def _weigh(step: Weigh) -> str:
    return f"count at ${step.variable.name}: {_branches(step.branches)}"


def _tally(step: Tally) -> str:
    branches = f": {_branches(step.branches)}" if step.branches else ""
    return f"count {_bound(step.variable)}{_where(step.conditions)}{branches}"


def _branches(branches: tuple[Branch, ...]) -> str:
    return ", ".join(_branch(each) for each in branches)


def _branch(branch: Branch) -> str:
    deeper = f" ({_branches(branch.branches)})" if branch.branches else ""
    return f"{_walk(branch.traversal)}{_where(branch.edge_conditions)}{_where(branch.conditions)}{deeper}"


def _bound(variable: Variable) -> str:
    return f"${variable.name}: {variable.declared}"


def _walk(traversal: Traversal) -> str:
    hops = traversal.hops
    bounds = "" if hops.maximum == 1 else f"{{{hops.minimum},{'' if hops.capped else hops.maximum}}}"
    arrows = {"out": ("-", "->"), "in": ("<-", "-"), "both": ("-", "-")}[traversal.direction]
    name = f"${traversal.edge_variable}: " if traversal.edge_variable else ""
    return f"${traversal.source} {arrows[0]}[{name}{traversal.edge}{bounds}]{arrows[1]} ${traversal.target}"


def _where(conditions: Conditions) -> str:
    parts = []
    if conditions.pushed is not None:
        parts.append(f"pushed {shown_filter(conditions.pushed)}")
    parts += [f"text {shown(each)}" for each in conditions.texts]
    parts += [f"then {shown(each)}" for each in conditions.rest]
    return f" where {' and '.join(parts)}" if parts else ""


_STEPS: dict[type[Any], Callable[[Any], str]] = {
    Scan: _scan,
    Expand: _expand,
    Meet: _meet,
    Weigh: _weigh,
    Tally: _tally,
    Keep: lambda step: f"keep where {' and '.join(shown(each) for each in step.conditions)}",
    FindPath: lambda step: f"shortest ${step.path.variable}: ${step.path.source} {step.path.edge} ${step.path.target}",
    Maybe: lambda _: "optional",
    Without: lambda step: f"without, for each {', '.join(f'${name}' for name in step.correlated) or 'row'}",
}


# -- conditions --------------------------------------------------------------------------------------------------------


def shown_filter(where: filters.Filter) -> str:
    """A filter of a table."""
    match where:
        case filters.Compare(column, operator, value):
            return f"{column} {operator} {value!r}"
        case filters.OneOf(column, values):
            return f"{column} in ({len(values)} values)"
        case filters.IsNull(column):
            return f"{column} is null"
        case filters.Text(column, how, needle):
            return f"{column} {how} {needle!r}"
        case filters.HasItem(column, value):
            return f"{column} contains {value!r}"
        case filters.Not(operand):
            return f"not ({shown_filter(operand)})"
        case filters.All(operands):
            return "(" + " and ".join(map(shown_filter, operands)) + ")"
        case filters.AnyOf(operands):
            return "(" + " or ".join(map(shown_filter, operands)) + ")"


def shown(value: Expression) -> str:
    """An expression, about as it was written."""
    return _EXPRESSIONS[type(value)](value)


def _call(name: str, *arguments: Expression | None) -> str:
    return f"{name}({', '.join(shown(each) for each in arguments if each is not None)})"


_EXPRESSIONS: dict[type[Any], Callable[[Any], str]] = {
    Constant: lambda value: repr(value.value),
    ParameterValue: lambda value: f"${value.name}",
    PropertyValue: lambda value: f"${value.variable}.{value.property}",
    EntityValue: lambda value: f"${value.variable}",
    ColumnValue: lambda value: value.name,
    Now: lambda _: "now()",
    Negative: lambda value: f"-{shown(value.operand)}",
    Arithmetic: lambda value: f"({shown(value.left)} {value.operator} {shown(value.right)})",
    Comparison: lambda value: f"{shown(value.left)} {value.operator} {shown(value.right)}",
    Membership: lambda value: f"{shown(value.item)} in {shown(value.items)}",
    NullTest: lambda value: f"{shown(value.operand)} is null",
    AllOf: lambda value: "(" + " and ".join(map(shown, value.operands)) + ")",
    AnyOf: lambda value: "(" + " or ".join(map(shown, value.operands)) + ")",
    NotOf: lambda value: f"not ({shown(value.operand)})",
    TextMatch: lambda value: _call(value.function, value.field, value.query, value.max_edits),
    Nearest: lambda value: _call("nearest", value.field, value.query),
    Bm25: lambda value: _call("bm25", value.field, value.query),
    Rrf: lambda value: _call("rrf", value.first, value.second),
    Aggregate: lambda value: _call(value.function, value.argument),
}
