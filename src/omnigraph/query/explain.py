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
    return f"expand {_traversal(step.traversal)} as {_bound_variable(step.target)}{_where(step.conditions)}{edge}"


def _expand_into(step: ExpandInto) -> str:
    return f"expand into {_traversal(step.traversal)}{_where(step.edge_conditions)}"


def _count_branches(step: CountBranches) -> str:
    return f"count at ${step.variable.name}: {_branches(step.branches)}"


def _count_component(step: CountComponent) -> str:
    branches = f": {_branches(step.branches)}" if step.branches else ""
    return f"count {_bound_variable(step.variable)}{_where(step.conditions)}{branches}"


def _branches(branches: tuple[CountedBranch, ...]) -> str:
    return ", ".join(_branch(each) for each in branches)


def _branch(branch: CountedBranch) -> str:
    deeper = f" ({_branches(branch.branches)})" if branch.branches else ""
    return f"{_traversal(branch.traversal)}{_where(branch.edge_conditions)}{_where(branch.conditions)}{deeper}"


def _bound_variable(variable: Variable) -> str:
    return f"${variable.name}: {variable.declared}"


def _traversal(traversal: Traversal) -> str:
    hops = traversal.hops
    bounds = "" if hops.maximum == 1 else f"{{{hops.minimum},{'' if hops.capped else hops.maximum}}}"
    arrows = {"out": ("-", "->"), "in": ("<-", "-"), "both": ("-", "-")}[traversal.direction]
    name = f"${traversal.edge_variable}: " if traversal.edge_variable else ""
    return f"${traversal.source} {arrows[0]}[{name}{traversal.edge}{bounds}]{arrows[1]} ${traversal.target}"


def _where(conditions: Conditions) -> str:
    clauses = []
    if conditions.pushed is not None:
        clauses.append(f"pushed {filter_text(conditions.pushed)}")
    clauses += [f"text {expression_text(each)}" for each in conditions.texts]
    clauses += [f"then {expression_text(each)}" for each in conditions.rest]
    return f" where {' and '.join(clauses)}" if clauses else ""


_STEPS: dict[type[Any], Callable[[Any], str]] = {
    Scan: _scan,
    Expand: _expand,
    ExpandInto: _expand_into,
    CountBranches: _count_branches,
    CountComponent: _count_component,
    FilterRows: lambda step: f"filter {' and '.join(expression_text(each) for each in step.conditions)}",
    FindShortestPath: lambda step: (
        f"shortest ${step.path.variable}: ${step.path.source} {step.path.edge} ${step.path.target}"
    ),
    OptionalMatch: lambda _: "optional",
    AntiJoin: lambda step: f"anti join, for each {', '.join(f'${name}' for name in step.correlated) or 'row'}",
}


# -- conditions --------------------------------------------------------------------------------------------------------


def filter_text(where: filters.Filter) -> str:
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
            return f"not ({filter_text(operand)})"
        case filters.And(operands):
            return "(" + " and ".join(map(filter_text, operands)) + ")"
        case filters.Or(operands):
            return "(" + " or ".join(map(filter_text, operands)) + ")"


def expression_text(value: Expression) -> str:
    """An expression as text, close to how the user wrote it."""
    return _EXPRESSIONS[type(value)](value)


def _call(name: str, *arguments: Expression | None) -> str:
    return f"{name}({', '.join(expression_text(each) for each in arguments if each is not None)})"


_EXPRESSIONS: dict[type[Any], Callable[[Any], str]] = {
    Constant: lambda value: repr(value.value),
    ParameterValue: lambda value: f"${value.name}",
    PropertyValue: lambda value: f"${value.variable}.{value.property}",
    EntityValue: lambda value: f"${value.variable}",
    ColumnValue: lambda value: value.name,
    Now: lambda _: "now()",
    Negative: lambda value: f"-{expression_text(value.operand)}",
    Arithmetic: lambda value: f"({expression_text(value.left)} {value.operator} {expression_text(value.right)})",
    Comparison: lambda value: f"{expression_text(value.left)} {value.operator} {expression_text(value.right)}",
    Membership: lambda value: f"{expression_text(value.item)} in {expression_text(value.items)}",
    NullTest: lambda value: f"{expression_text(value.operand)} is null",
    AllOf: lambda value: "(" + " and ".join(map(expression_text, value.operands)) + ")",
    AnyOf: lambda value: "(" + " or ".join(map(expression_text, value.operands)) + ")",
    NotOf: lambda value: f"not ({expression_text(value.operand)})",
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
        """The line as JSON values, without the measurements that are missing."""
        values: dict[str, object] = {"depth": self.depth, "operator": self.operator, "ways": list(self.ways)}
        measures = {"estimate": self.estimate, "rows": self.rows, "seconds": self.seconds}
        return values | {name: measure for name, measure in measures.items() if measure is not None}

    def __str__(self) -> str:
        clauses = [f"{'  ' * self.depth}{self.operator}"]
        if self.estimate is not None:
            clauses.append(f"≈ {self.estimate:,.0f} rows")
        if self.rows is not None and self.seconds is not None:
            clauses.append(f"= {self.rows:,} rows in {self.seconds * 1e3:.2f} ms")
        return "  ".join([*clauses, *(f"[{way}]" for way in self.ways)])


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
    columns = ", ".join(f"{expression_text(each.value)} as {each.name}" for each in checked.columns)
    order = ", ".join(f"{expression_text(each.value)}{' desc' if each.descending else ''}" for each in checked.order)
    having = " and ".join(expression_text(each) for each in checked.having)
    clauses = {"having": having, "order": order, "limit": _bound(checked.limit), "offset": _bound(checked.offset)}
    text = f"{kind} {columns}" + "".join(f" {name} {clause}" for name, clause in clauses.items() if clause)
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
            yield _traversal_way(read, traversal, step.estimate)
    if isinstance(step, CountComponent | CountBranches):
        yield from _branch_ways(read, step.branches, step.estimate)


def _branch_ways(read: QueryContext, branches: tuple[CountedBranch, ...], rows: float) -> Iterator[str]:
    for branch in branches:
        yield _traversal_way(read, branch.traversal, rows)
        yield from _branch_ways(read, branch.branches, rows)


def _traversal_way(read: QueryContext, traversal: Traversal, rows: float) -> str:
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
