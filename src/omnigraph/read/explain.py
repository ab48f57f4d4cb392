"""How a query will run, and how it ran: operators, estimates, ways chosen, rows and times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.language.query.expressions import ParameterValue
from omnigraph.read.plan.describe import described, inner_steps, shown
from omnigraph.read.plan.operators import Expand, Meet, Scan, Tally, Weigh
from omnigraph.relational.row_filter import columns_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.language.query.checked import CheckedQuery, Traversal
    from omnigraph.read.execute.profile import Profile
    from omnigraph.read.execute.read import Read
    from omnigraph.read.execute.table_rows import TableRows
    from omnigraph.read.plan.operators import Branch, Conditions, Step


@dataclass(frozen=True)
class Line:
    """One operator. `rows` and `seconds` are there when the query was run."""

    depth: int
    operator: str
    estimate: float | None
    ways: tuple[str, ...]
    rows: int | None = None
    seconds: float | None = None

    def to_json(self) -> dict[str, object]:
        """For programs."""
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
class Explanation:
    """The operators of a query in the order in which they run."""

    lines: tuple[Line, ...]

    def __str__(self) -> str:
        return "\n".join(str(each) for each in self.lines)

    # At a prompt and in a notebook the plan itself is wanted.
    __repr__ = __str__


def explanation(read: Read, checked: CheckedQuery, steps: tuple[Step, ...], profile: Profile | None) -> Explanation:
    """The plan of a query; with a profile, what each operator did."""
    lines = [*_lines(read, steps, 0, profile), _outcome(checked, profile)]
    return Explanation(tuple(lines))


def _lines(read: Read, steps: tuple[Step, ...], depth: int, profile: Profile | None) -> Iterator[Line]:
    for step in steps:
        done = None if profile is None else profile.of(step)
        ways = tuple(_ways(read, step)) if done is None else tuple(done.notes)
        rows, seconds = (None, None) if done is None else (done.rows, done.seconds)
        yield Line(depth, described(step), step.estimate, ways, rows, seconds)
        yield from _lines(read, inner_steps(step), depth + 1, profile)


def _outcome(checked: CheckedQuery, profile: Profile | None) -> Line:
    kind = "group" if checked.aggregated else "distinct" if checked.distinct else "return"
    columns = ", ".join(f"{shown(each.value)} as {each.name}" for each in checked.columns)
    order = ", ".join(f"{shown(each.value)}{' desc' if each.descending else ''}" for each in checked.order)
    having = " and ".join(shown(each) for each in checked.having)
    parts = {"having": having, "order": order, "limit": _bound(checked.limit), "offset": _bound(checked.offset)}
    text = f"{kind} {columns}" + "".join(f" {name} {part}" for name, part in parts.items() if part)
    done = None if profile is None else profile.of(checked)
    if done is None:
        return Line(0, text, None, ())
    return Line(0, text, None, tuple(done.notes), done.rows, done.seconds)


def _bound(bound: int | ParameterValue | None) -> str:
    return f"${bound.name}" if isinstance(bound, ParameterValue) else "" if bound is None else str(bound)


# -- which way each operator will go -----------------------------------------------------------------------------------


def _ways(read: Read, step: Step) -> Iterator[str]:
    match step:
        case Scan(variable, conditions) | Tally(variable, conditions):
            for name in variable.types:
                yield _scan_way(read.table(f"node:{name}"), conditions)
        case Expand(traversal) | Meet(traversal):
            yield _walk_way(read, traversal, step.estimate)
    if isinstance(step, Tally | Weigh):
        yield from _branch_ways(read, step.branches, step.estimate)


def _branch_ways(read: Read, branches: tuple[Branch, ...], rows: float) -> Iterator[str]:
    for branch in branches:
        yield _walk_way(read, branch.traversal, rows)
        yield from _branch_ways(read, branch.branches, rows)


def _walk_way(read: Read, traversal: Traversal, rows: float) -> str:
    mode = read.mode(traversal, max(1, int(rows)), distinct=traversal.edge_variable is None)
    return f"{traversal.edge}: {mode}"


def _scan_way(table: TableRows, conditions: Conditions) -> str:
    if conditions.pushed is None:
        return f"{table.name}: every row"
    names = sorted(columns_of(conditions.pushed))
    if table.reads_whole(names, table.guess(conditions.pushed)):
        return f"{table.name}: columns in memory"
    found = [each.name for each in table.table.dataset.describe_indices() if set(each.field_names) <= set(names)]
    return f"{table.name}: {'index ' + ', '.join(sorted(found)) if found else 'filtered scan'}"
