"""Evaluates predicates and computed values over Arrow rows with DuckDB, and builds Arrow columns from Python values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from omnigraph.errors import ConstraintViolation
from omnigraph.expressions.sql import SqlBuilder
from omnigraph.kernels.duckdb_pool import NO_RESULT, connection, rows_to_duckdb
from omnigraph.language.ir.expressions import AllOf, Expression, RowValue
from omnigraph.values.columns import stored_column
from omnigraph.values.scalars import WrongValue, stored_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from omnigraph.catalog.catalog import PropertyType
    from omnigraph.expressions.pushdown import RequestValues


def column(values: Sequence[object], declared: PropertyType, *, of: str) -> pa.Array[Any]:
    """Values of a declared type as a column; `of` is `Type.property`, for the error when a value does not fit."""
    try:
        stored = [None if each is None else stored_value(declared, each) for each in values]
    except WrongValue as error:
        type_name, _, property_name = of.partition(".")
        raise ConstraintViolation(f"{of}: {error}", type_name=type_name, property_name=property_name) from error
    return stored_column(declared, stored)


def matching(rows: pa.Table, conditions: tuple[Expression, ...], request: RequestValues) -> pa.Table:
    """The rows for which all conditions are true."""
    if not conditions or not rows.num_rows:
        return rows
    condition = _builder(request).build(AllOf(conditions))
    return rows.filter(_select(rows, {"matches": condition}).column("matches"))


def computed(rows: pa.Table, values: dict[str, tuple[Expression, PropertyType]], request: RequestValues) -> pa.Table:
    """New columns, computed from the values of each row."""
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
        duck.register("given", rows_to_duckdb(rows))
        try:
            answer: pa.Table = duck.sql(query.sql("duckdb")).to_arrow_table()
        except NO_RESULT as error:
            raise ConstraintViolation(f"a value cannot be computed: {error}", type_name="") from error
    return answer
