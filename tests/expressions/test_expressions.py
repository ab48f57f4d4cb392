"""Checked expressions as SQL: what they mean in DuckDB, and that Spark can be told the same."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import duckdb
import pytest
from sqlglot import exp

from omnigraph.catalog.catalog import PropertyType
from omnigraph.expressions.dialects import each_alone, weighted
from omnigraph.expressions.sql import SqlBuilder, literal, sql_type
from omnigraph.language.ir.expressions import (
    Aggregate,
    AllOf,
    AnyOf,
    Arithmetic,
    Comparison,
    Constant,
    Expression,
    Membership,
    Negative,
    NotOf,
    NullTest,
    ParameterValue,
    RowValue,
)
from omnigraph.language.ir.types import BOOL, DATETIME, F64, I64, STRING, nullable

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
F32 = PropertyType("F32")
COLUMNS = {"i": I64, "f": F32, "s": STRING, "n": nullable(I64), "u": PropertyType("U32")}
ROW = "SELECT 9007199254740993::BIGINT AS i, 0.1::FLOAT AS f, 'it''s' AS s, NULL::BIGINT AS n, 5::UINTEGER AS u"


def row(name: str) -> RowValue:
    return RowValue(name, COLUMNS[name])


def constant(value: Any, kind: PropertyType) -> Constant:
    return Constant(value, kind)


def builder(**params: object) -> SqlBuilder:
    return SqlBuilder(params, NOW, lambda leaf: exp.column(leaf.property))  # type: ignore[union-attr]


def value(expression: Expression, **params: object) -> Any:
    sql = builder(**params).build(expression).sql("duckdb")
    found = duckdb.sql(f"SELECT {sql} FROM ({ROW})")
    assert found is not None
    ((answer,),) = found.fetchall()
    return answer


def compared(operator: Any, left: Expression, right: Expression) -> Comparison:
    return Comparison(operator, left, right)


def test_an_integer_is_compared_with_a_float_exactly() -> None:
    close = constant(9007199254740992.0, F64)
    assert value(compared("=", row("i"), close)) is False
    assert value(compared(">", row("i"), close)) is True
    assert value(compared("<", close, row("i"))) is True
    for operator, answer in (("=", False), ("!=", True), ("<", False), (">", True), (">=", True)):
        assert value(compared(operator, row("i"), constant(2.5, F64))) is answer
    assert value(compared("!=", row("n"), constant(2.5, F64))) is None
    assert value(compared("<", row("i"), constant(1e300, F64))) is True
    assert value(compared("<", row("i"), constant(1e25, F64))) is True


def test_a_narrow_float_is_compared_in_its_own_width() -> None:
    assert value(compared("=", row("f"), constant(0.1, F64))) is True
    assert value(compared("=", constant(0.1, F64), row("f"))) is True
    assert value(Membership(row("f"), constant((0.1, 7.0), PropertyType("F64", is_list=True)))) is True


@pytest.mark.parametrize(("operator", "answer"), [("+", 7), ("-", 3), ("*", 10), ("/", 2.5), ("%", 1)])
def test_arithmetic(operator: Any, answer: float) -> None:
    kind = F64 if operator == "/" else I64
    assert value(Arithmetic(operator, row("u"), constant(2, I64), kind)) == answer


def test_division_and_remainder_by_zero_are_null() -> None:
    for operator in ("/", "%"):
        assert value(Arithmetic(operator, row("u"), constant(0, I64), nullable(F64))) is None  # type: ignore[arg-type]


def test_the_negative_of_an_unsigned_number() -> None:
    assert value(Negative(row("u"), I64)) == -5


def test_unknown_stays_unknown() -> None:
    unknown = compared("=", row("n"), constant(1, I64))
    true = compared("=", row("u"), constant(5, I64))
    assert value(unknown) is None
    assert value(NotOf(unknown)) is None
    assert value(AnyOf((unknown, true))) is True
    assert value(AllOf((unknown, NotOf(true)))) is False
    assert value(NullTest(row("n"))) is True
    assert value(Membership(row("n"), constant((1, 2), PropertyType("I64", is_list=True)))) is None


def test_values_never_become_a_part_of_the_sql() -> None:
    given = ParameterValue("p", STRING)
    assert value(compared("=", row("s"), given), p="it's") is True
    assert value(compared("=", row("s"), given), p="' OR 1=1 --") is False
    assert value(compared("contains", row("s"), given), p="'") is True
    assert value(compared("starts_with", row("s"), given), p="%") is False


def test_membership_in_an_empty_list_is_false() -> None:
    assert value(Membership(row("u"), constant((), PropertyType("String", is_list=True)))) is False


def test_literals_keep_their_values() -> None:
    moment = dt.datetime(2024, 5, 6, 7, 8, 9, 123_000, tzinfo=dt.UTC)
    for given, kind in (
        (-(2**63) + 1, I64), (2**63, PropertyType("U64")), (0.1, F64), (math.inf, F64), (True, BOOL),
        (dt.date(2024, 2, 29), PropertyType("Date")),
        (["a", "'"], PropertyType("String", is_list=True)), (None, I64),
    ):  # fmt: skip
        found = duckdb.sql(f"SELECT {literal(given, kind).sql('duckdb')}")
        assert found is not None
        assert found.fetchall() == [(given,)]
    found = duckdb.sql(f"SELECT {literal(moment, DATETIME).sql('duckdb')}")
    assert found is not None
    assert found.fetchall() == [(moment.replace(tzinfo=None),)]


def test_types_have_names_in_both_dialects() -> None:
    assert sql_type(PropertyType("Vector", dimensions=3)) == "FLOAT[3]"
    assert sql_type(PropertyType("Date", is_list=True)) == "DATE[]"
    expression = builder().build(compared(">", Arithmetic("+", row("i"), constant(1, I64), I64), constant(2.5, F64)))
    assert expression.sql("spark") == "((CAST(i AS BIGINT) + CAST(1 AS BIGINT)) > CAST(2 AS BIGINT))"


@pytest.mark.parametrize(("function", "answer"), [("count", 5), ("sum", 11.0), ("avg", 2.2), ("min", 1), ("max", 4)])
def test_an_aggregate_over_weights_is_the_one_over_the_matches(function: Any, answer: float) -> None:
    kind = I64 if function in ("count", "min", "max") else F64
    aggregate = Aggregate(function, RowValue("x", nullable(I64)), False, kind)
    rows = "SELECT * FROM (VALUES (1, 3), (4, 2), (NULL, 9)) AS t(x, w)"
    built = SqlBuilder({}, NOW, lambda _: exp.column("x"), weighted(exp.column("w"))).build(aggregate)
    found = duckdb.sql(f"SELECT {built.sql('duckdb')} FROM ({rows})")
    assert found is not None
    assert found.fetchall()[0][0] == pytest.approx(answer)


def test_a_row_that_is_a_group_of_its_own() -> None:
    rows = "SELECT 4 AS x, 3 AS w"
    for function, answer in (("count", 3), ("sum", 12.0), ("avg", 4.0), ("min", 4), ("max", 4)):
        aggregate = Aggregate(function, RowValue("x", I64), False, I64)  # type: ignore[arg-type]
        built = SqlBuilder({}, NOW, lambda _: exp.column("x"), each_alone(exp.column("w"))).build(aggregate)
        found = duckdb.sql(f"SELECT {built.sql('duckdb')} FROM ({rows})")
        assert found is not None
        assert found.fetchall() == [(answer,)]
