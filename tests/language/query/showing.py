"""Checked trees as text, for the expected files beside the fixtures.

Run `python tests/language/query/showing.py` to write the expected files anew, then read the difference.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.errors import QueryError
from omnigraph.language.gq.check import check_query
from omnigraph.language.gq.syntax.parse import parse_queries
from omnigraph.language.ir import expressions as made
from omnigraph.language.ir import query as tree
from omnigraph.language.ir.query import CheckedQuery
from omnigraph.language.schema.compile import compile_schema

if TYPE_CHECKING:
    from omnigraph.catalog.catalog import Catalog

FIXTURES = Path(__file__).parent / "fixtures"


def world() -> Catalog:
    return compile_schema((FIXTURES / "world.pg").read_text())


def show_file(path: Path, catalog: Catalog) -> str:
    """Every query of a file: what it became, or why it was refused."""
    try:
        file = parse_queries(path.read_text(), path.name)
    except QueryError as error:
        return f"{error}\n"
    return "\n".join(_show_query(each, catalog) for each in file.queries)


def _show_query(query: object, catalog: Catalog) -> str:
    try:
        return "\n".join(show(check_query(query, catalog))) + "\n"
    except QueryError as error:
        return f"refused {query.name}\n{error}\n"


def show(checked: tree.CheckedQuery | tree.CheckedMutation) -> list[str]:
    params = ", ".join(f"{each.name}: {each.type}" for each in checked.parameters)
    kind = "read" if isinstance(checked, CheckedQuery) else "mutation"
    head = f"{kind} {checked.name}({params}){' uses now' if checked.uses_now else ''}"
    notes = [f"  {word} {text!r}" for word in ("description", "instruction") if (text := getattr(checked, word))]
    body = _read(checked) if isinstance(checked, CheckedQuery) else [_statement(each) for each in checked.statements]
    return [head, *notes, *(f"  {each}" for each in body)]


def _read(query: tree.CheckedQuery) -> list[str]:
    words = [word for word in ("distinct", "aggregated") if getattr(query, word)]
    return [
        *_pattern(query.pattern),
        *(f"column {each.name!r}: {each.type} = {text(each.value)}" for each in query.columns),
        *words,
        *(f"having {text(each)}" for each in query.having),
        *(f"order {text(each.value)} {'desc' if each.descending else 'asc'}" for each in query.order),
        *(
            f"{word} {bound if isinstance(bound, int) else text(bound)}"
            for word in ("limit", "offset")
            if (bound := getattr(query, word)) is not None
        ),
    ]


def _pattern(pattern: tree.Pattern) -> list[str]:
    return [
        *(_variable(each) for each in pattern.variables),
        *(_traversal(each) for each in pattern.traversals),
        *(
            f"shortest {each.variable}: {each.source} {each.direction}:{each.edge} {_hops(each.hops)} {each.target}"
            for each in pattern.paths
        ),
        *_blocks("optional", pattern.optionals),
        *(f"filter {text(each)}" for each in pattern.filters),
        *_blocks("not", pattern.negations),
    ]


def _blocks(word: str, patterns: tuple[tree.Pattern, ...]) -> list[str]:
    lines = []
    for each in patterns:
        lines.append(f"{word} around {', '.join(sorted(each.outer))}")
        lines.extend(f"  {line}" for line in _pattern(each))
    return lines


def _variable(variable: tree.Variable) -> str:
    if not variable.is_interface:
        return f"{variable.kind} {variable.name}: {variable.declared}"
    return f"{variable.kind} {variable.name}: {variable.declared} = {' | '.join(variable.types)}"


def _traversal(each: tree.Traversal) -> str:
    bound = f" as {each.edge_variable}" if each.edge_variable else ""
    return f"walk {each.source} {each.direction}:{each.edge} {_hops(each.hops)} {each.target}{bound}"


def _hops(hops: tree.Hops) -> str:
    return f"{hops.minimum}..{hops.maximum}{' capped' if hops.capped else ''}"


def _statement(statement: tree.Statement) -> str:
    table = f"{statement.table.kind} {statement.table.name}"
    word = type(statement).__name__.lower()
    parts = [f"{word} {table}"]
    ends = [(end, getattr(statement, end, None)) for end in ("source", "target")]
    parts += [f"{end} {text(value)}" for end, value in ends if value is not None]
    parts += [f"{each.property}: {each.type} = {text(each.value)}" for each in getattr(statement, "values", ())]
    if unset := getattr(statement, "unset_required", ()):
        parts.append(f"new rows need {', '.join(unset)}")
    if (where := getattr(statement, "where", None)) is not None:
        parts.append(f"where {text(where)}")
    if cascades := getattr(statement, "cascades", ()):
        parts.append(f"cascades to {', '.join(cascades)}")
    return "; ".join(parts)


def text(value: made.Expression) -> str:
    if (shown := _SHOWN.get(type(value))) is not None:
        return shown(value)
    name = value.function if isinstance(value, made.TextMatch) else type(value).__name__.lower()
    return f"{name}({', '.join(text(each) for each in made.children(value))})"


def _pair(value: made.Comparison | made.Arithmetic) -> str:
    return f"({text(value.left)} {value.operator} {text(value.right)})"


_SHOWN = {
    made.Constant: lambda value: f"{value.value!r}:{value.type}",
    made.ParameterValue: lambda value: f"${value.name}",
    made.PropertyValue: lambda value: f"{value.variable}.{value.property}",
    made.EntityValue: lambda value: f"entity {value.variable}",
    made.RowValue: lambda value: f"row.{value.property}",
    made.ColumnValue: lambda value: f"column[{value.index}] {value.name!r}",
    made.Comparison: _pair,
    made.Arithmetic: _pair,
    made.Membership: lambda value: f"({text(value.item)} in {text(value.items)})",
    made.AllOf: lambda value: f"all({', '.join(map(text, value.operands))})",
    made.AnyOf: lambda value: f"any({', '.join(map(text, value.operands))})",
    made.Aggregate: lambda value: f"{value.function}({'distinct ' * value.distinct}{text(value.argument)})",
    made.Rrf: lambda value: f"rrf({text(value.first)}, {text(value.second)}, {value.k})",
}


if __name__ == "__main__":
    catalog = world()
    for fixture in sorted(FIXTURES.rglob("*.gq")):
        fixture.with_suffix(".expected").write_text(show_file(fixture, catalog))
