"""Describes the plan of a query as text: operators, estimates and access paths; after a run, also rows and times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.kernels.report import Report
from omnigraph.language.ir.expressions import (
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
)
from omnigraph.storage.filters import model as filters
from omnigraph.storage.filters.arrow_eval import columns_of
from omnigraph.storage.tables.indexes import indexes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from omnigraph.language.ir.query import CheckedQuery, Traversal, Variable
    from omnigraph.query.columns.table_columns import TableRows
    from omnigraph.query.exec.context import QueryContext
    from omnigraph.query.exec.limits import Profile
    from omnigraph.query.plan.operators import Conditions, CountedBranch, Step


def described(step: Step) -> str:
    """One operator as one line of text."""
    return _STEPS[type(step)](step)


def inner_steps(step: Step) -> tuple[Step, ...]:
    """The operators that run inside an optional match or an anti-join."""
    return step.steps if isinstance(step, OptionalMatch | AntiJoin) else ()


def _scan(step: Scan) -> str:
    return f"scan {_bound_variable(step.variable)}{_where(step.conditions)}"


def _expand(step: Expand) -> str:
    edge = _where(step.edge_conditions)
    return f"expand {_walk(step.traversal)} as {_bound_variable(step.target)}{_where(step.conditions)}{edge}"


def _meet(step: ExpandInto) -> str:
    return f"meet {_walk(step.traversal)}{_where(step.edge_conditions)}"


def _weigh(step: CountBranches) -> str:
    return f"count at ${step.variable.name}: {_branches(step.branches)}"


def _tally(step: CountComponent) -> str:
    branches = f": {_branches(step.branches)}" if step.branches else ""
    return f"count {_bound_variable(step.variable)}{_where(step.conditions)}{branches}"


def _branches(branches: tuple[CountedBranch, ...]) -> str:
    return ", ".join(_branch(each) for each in branches)


def _branch(branch: CountedBranch) -> str:
    deeper = f" ({_branches(branch.branches)})" if branch.branches else ""
    return f"{_walk(branch.traversal)}{_where(branch.edge_conditions)}{_where(branch.conditions)}{deeper}"


def _bound_variable(variable: Variable) -> str:
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
    ExpandInto: _meet,
    CountBranches: _weigh,
    CountComponent: _tally,
    FilterRows: lambda step: f"keep where {' and '.join(shown(each) for each in step.conditions)}",
    FindShortestPath: lambda step: (
        f"shortest ${step.path.variable}: ${step.path.source} {step.path.edge} ${step.path.target}"
    ),
    OptionalMatch: lambda _: "optional",
    AntiJoin: lambda step: f"without, for each {', '.join(f'${name}' for name in step.correlated) or 'row'}",
}


# -- conditions --------------------------------------------------------------------------------------------------------


def shown_filter(where: filters.Filter) -> str:
    """A pushed-down filter as text."""
    match where:
        case filters.Compare(column, operator, value):
            return f"{column} {operator} {value!r}"
        case filters.OneOf(column, values):
            return f"{column} in ({len(values)} values)"
        case filters.IsNull(column):
            return f"{column} is null"
        case filters.TextPredicate(column, how, needle):
            return f"{column} {how} {needle!r}"
        case filters.HasItem(column, value):
            return f"{column} contains {value!r}"
        case filters.Not(operand):
            return f"not ({shown_filter(operand)})"
        case filters.And(operands):
            return "(" + " and ".join(map(shown_filter, operands)) + ")"
        case filters.Or(operands):
            return "(" + " or ".join(map(shown_filter, operands)) + ")"


def shown(value: Expression) -> str:
    """An expression as text, close to how the user wrote it."""
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


@dataclass(frozen=True, repr=False)
class PlanLine(Report):
    """One operator of an explanation. `rows` and `seconds` are set only after a run."""

    depth: int
    operator: str
    estimate: float | None
    ways: tuple[str, ...]
    rows: int | None = None
    seconds: float | None = None

    def to_dict(self) -> dict[str, object]:
        """The line as JSON values, without the numbers that are not known."""
        told: dict[str, object] = {"depth": self.depth, "operator": self.operator, "ways": list(self.ways)}
        numbers = {"estimate": self.estimate, "rows": self.rows, "seconds": self.seconds}
        return told | {name: number for name, number in numbers.items() if number is not None}

    def __str__(self) -> str:
        parts = [f"{'  ' * self.depth}{self.operator}"]
        if self.estimate is not None:
            parts.append(f"≈ {self.estimate:,.0f} rows")
        if self.rows is not None and self.seconds is not None:
            parts.append(f"= {self.rows:,} rows in {self.seconds * 1e3:.2f} ms")
        return "  ".join([*parts, *(f"[{way}]" for way in self.ways)])


@dataclass(frozen=True)
class Explanation(Report):
    """The operators of a query in the order in which they run."""

    lines: tuple[PlanLine, ...]

    def __str__(self) -> str:
        return "\n".join(str(each) for each in self.lines)

    # At a prompt and in a notebook the plan itself is wanted.
    __repr__ = __str__


def explanation(
    read: QueryContext, checked: CheckedQuery, steps: tuple[Step, ...], profile: Profile | None
) -> Explanation:
    """Describe the plan of a query; with a profile, also what each operator did."""
    lines = [*_lines(read, steps, 0, profile), _outcome(checked, profile)]
    return Explanation(tuple(lines))


def _lines(read: QueryContext, steps: tuple[Step, ...], depth: int, profile: Profile | None) -> Iterator[PlanLine]:
    for step in steps:
        done = None if profile is None else profile.of(step)
        ways = tuple(_ways(read, step)) if done is None else tuple(done.notes)
        rows, seconds = (None, None) if done is None else (done.rows, done.seconds)
        yield PlanLine(depth, described(step), step.estimate, ways, rows, seconds)
        yield from _lines(read, inner_steps(step), depth + 1, profile)


def _outcome(checked: CheckedQuery, profile: Profile | None) -> PlanLine:
    kind = "group" if checked.aggregated else "distinct" if checked.distinct else "return"
    columns = ", ".join(f"{shown(each.value)} as {each.name}" for each in checked.columns)
    order = ", ".join(f"{shown(each.value)}{' desc' if each.descending else ''}" for each in checked.order)
    having = " and ".join(shown(each) for each in checked.having)
    parts = {"having": having, "order": order, "limit": _bound(checked.limit), "offset": _bound(checked.offset)}
    text = f"{kind} {columns}" + "".join(f" {name} {part}" for name, part in parts.items() if part)
    done = None if profile is None else profile.of(checked)
    if done is None:
        return PlanLine(0, text, None, ())
    return PlanLine(0, text, None, tuple(done.notes), done.rows, done.seconds)


def _bound(bound: int | ParameterValue | None) -> str:
    return f"${bound.name}" if isinstance(bound, ParameterValue) else "" if bound is None else str(bound)


# -- access paths ------------------------------------------------------------------------------------------------------


def _ways(read: QueryContext, step: Step) -> Iterator[str]:
    match step:
        case Scan(variable, conditions) | CountComponent(variable, conditions):
            for name in variable.types:
                yield _scan_way(read.table(f"node:{name}"), conditions)
        case Expand(traversal) | ExpandInto(traversal):
            yield _walk_way(read, traversal, step.estimate)
    if isinstance(step, CountComponent | CountBranches):
        yield from _branch_ways(read, step.branches, step.estimate)


def _branch_ways(read: QueryContext, branches: tuple[CountedBranch, ...], rows: float) -> Iterator[str]:
    for branch in branches:
        yield _walk_way(read, branch.traversal, rows)
        yield from _branch_ways(read, branch.branches, rows)


def _walk_way(read: QueryContext, traversal: Traversal, rows: float) -> str:
    mode = read.mode(traversal, max(1, int(rows)), distinct=traversal.edge_variable is None)
    return f"{traversal.edge}: {mode}"


def _scan_way(table: TableRows, conditions: Conditions) -> str:
    if conditions.pushed is None:
        return f"{table.name}: every row"
    names = sorted(columns_of(conditions.pushed))
    if table.reads_whole(names, table.guess(conditions.pushed)):
        return f"{table.name}: columns in memory"
    found = [each.name for each in indexes_of(table.table) if set(each.columns) <= set(names)]
    return f"{table.name}: {'index ' + ', '.join(sorted(found)) if found else 'filtered scan'}"
