"""Which rows a predicate means, and new values made from old ones: DuckDB evaluates both over the rows as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import duckdb
from sqlglot import exp

from omnigraph.errors import ConstraintViolation
from omnigraph.language.query.expressions import (
    AllOf,
    AnyOf,
    Comparison,
    Expression,
    Membership,
    NotOf,
    NullTest,
    RowValue,
    conjuncts,
)
from omnigraph.relational.engine import as_duckdb_takes_it, connection
from omnigraph.relational.expressions import SqlBuilder
from omnigraph.store import filters
from omnigraph.write.mutation.constants import depends_on_row

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.language.schema.catalog import PropertyType
    from omnigraph.write.mutation.constants import Request

_Comparison = Literal["=", "!=", "<", "<=", ">", ">=", "contains", "starts_with"]
_FLIPPED: dict[str, Any] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Predicate:
    """A predicate in two parts: what the table itself filters by, and what is left to evaluate over those rows."""

    pushed: filters.Filter | None
    rest: tuple[Expression, ...]

    def rows(self, candidates: pa.Table, request: Request) -> pa.Table:
        """Of the rows that the filter lets through, those for which the rest is true too."""
        if not self.rest or not candidates.num_rows:
            return candidates
        condition = _builder(request).build(AllOf(self.rest))
        return candidates.filter(_select(candidates, {"matches": condition}).column("matches"))


def split(where: Expression, request: Request) -> Predicate:
    """Push every condition that means the same to the table; most predicates are pushed whole."""
    pushed, rest = [], []
    for part in conjuncts(where):
        each = _filter(part, request)
        if each is None:
            rest.append(part)
        else:
            pushed.append(each)
    return Predicate(filters.All(tuple(pushed)) if pushed else None, tuple(rest))


def computed(rows: pa.Table, values: dict[str, tuple[Expression, PropertyType]], request: Request) -> pa.Table:
    """New columns made from the rows' own values."""
    builder = _builder(request)
    return _select(rows, {name: builder.build(value) for name, (value, _) in values.items()})


def _builder(request: Request) -> SqlBuilder:
    return SqlBuilder(request.params, request.now, _column)


def _column(expression: Expression) -> exp.Expr:
    assert isinstance(expression, RowValue), type(expression).__name__
    return exp.column(expression.property, quoted=True)


def _select(rows: pa.Table, columns: dict[str, exp.Expr]) -> pa.Table:
    projected = [exp.alias_(value, name, quoted=True) for name, value in columns.items()]
    query = exp.select(*projected).from_("given")
    with connection() as duck:
        duck.register("given", as_duckdb_takes_it(rows))
        try:
            answer: pa.Table = duck.sql(query.sql("duckdb")).to_arrow_table()
        except (duckdb.OutOfRangeException, duckdb.ConversionException) as error:
            raise ConstraintViolation(f"a value cannot be computed: {error}", type_name="") from error
    return answer


def _filter(part: Expression, request: Request) -> filters.Filter | None:
    match part:
        case Comparison(operator, RowValue(name), value) if not depends_on_row(value):
            return _comparison(name, operator, request.value(value))
        case Comparison(operator, value, RowValue(name)) if operator in _FLIPPED and not depends_on_row(value):
            return _comparison(name, _FLIPPED[operator], request.value(value))
        case NullTest(RowValue(name)):
            return filters.IsNull(name)
        case Membership(RowValue(name), items) if not depends_on_row(items):
            listed = request.value(items)
            return None if listed is None else filters.one_of(name, listed)
        case AllOf(operands) | AnyOf(operands):
            parts = [_filter(each, request) for each in operands]
            whole = filters.All if isinstance(part, AllOf) else filters.AnyOf
            return None if None in parts else whole(tuple(each for each in parts if each is not None))
        case NotOf(operand):
            inner = _filter(operand, request)
            return None if inner is None else filters.Not(inner)
        case _:
            return None


def _comparison(name: str, operator: _Comparison, value: Any) -> filters.Filter | None:
    """Numbers with a fraction are left to DuckDB: the table would round them to the column's type."""
    if value is None or isinstance(value, float | list | tuple):
        return None
    if operator == "contains" or operator == "starts_with":
        return filters.Text(name, operator, str(value))
    return filters.Compare(name, operator, value)
