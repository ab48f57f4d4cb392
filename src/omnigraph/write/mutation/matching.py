"""Which rows a predicate means, and new values made from old ones: DuckDB evaluates both over the rows as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
from sqlglot import exp

from omnigraph.errors import ConstraintViolation
from omnigraph.language.query.expressions import (
    AllOf,
    Expression,
    RowValue,
)
from omnigraph.relational.engine import as_duckdb_takes_it, connection
from omnigraph.relational.expressions import SqlBuilder

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.language.schema.catalog import PropertyType
    from omnigraph.relational.request import RequestValues


def matching(rows: pa.Table, conditions: tuple[Expression, ...], request: RequestValues) -> pa.Table:
    """The rows for which all conditions are true."""
    if not conditions or not rows.num_rows:
        return rows
    condition = _builder(request).build(AllOf(conditions))
    return rows.filter(_select(rows, {"matches": condition}).column("matches"))


def computed(rows: pa.Table, values: dict[str, tuple[Expression, PropertyType]], request: RequestValues) -> pa.Table:
    """New columns made from the rows' own values."""
    builder = _builder(request)
    return _select(rows, {name: builder.build(value) for name, (value, _) in values.items()})


def _builder(request: RequestValues) -> SqlBuilder:
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
