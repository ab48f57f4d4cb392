"""Tables of one type, whatever library made them: lossless casts, or a refusal that names column and row."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from load.loading import SOCIAL, read, rows
from omnigraph.catalog.catalog import PropertyType
from omnigraph.errors import InvalidInput, InvalidRecord, ValueViolation
from omnigraph.values.arrow_casts import cast_column
from omnigraph.values.columns import BadCell

EVERYTHING = """
node All {
    s: String?  b: Bool?  i: I32?  l: I64?  w: U32?  u: U64?  f: F32?  d: F64?  day: Date?  at: DateTime?
    v: Vector(2)?  tags: [String]?  days: [Date]?  role: enum(a, b)?  blob: Blob?
}
"""


def one(declared: PropertyType, column: pa.Array[Any]) -> list[Any]:
    cast = cast_column(declared, column)
    return cast.cast(pa.int64()).to_pylist() if cast.type == pa.date64() else cast.to_pylist()


def nullable(scalar: Any, **more: Any) -> PropertyType:
    return PropertyType(scalar, nullable=True, **more)


NOON = 1_704_110_400_000


@pytest.mark.parametrize(
    ("declared", "column", "expected"),
    [
        (nullable("String"), pa.array(["a", None], pa.large_string()), ["a", None]),
        (nullable("String"), pa.array(["a", None], pa.string_view()), ["a", None]),
        (nullable("String"), pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
        (nullable("String", enum_values=("a", "b")), pa.array(["a", "b"]), ["a", "b"]),
        (nullable("Bool"), pa.array([True, None]), [True, None]),
        (nullable("I32"), pa.array([1, None], pa.uint64()), [1, None]),
        (nullable("I32"), pa.array([30.0, None]), [30, None]),
        (nullable("I64"), pa.array([Decimal("7")], pa.decimal128(5, 0)), [7]),
        (nullable("U64"), pa.array([2**64 - 1], pa.uint64()), [2**64 - 1]),
        (nullable("F32"), pa.array([0.1, None]), [float(np.float32(0.1)), None]),
        (nullable("F64"), pa.array([1, 2], pa.int32()), [1.0, 2.0]),
        (nullable("F64"), pa.array([1.5], pa.float32()), [1.5]),
        (nullable("Date"), pa.array([date(2024, 1, 1)]), [date(2024, 1, 1)]),
        (nullable("Date"), pa.array([datetime(2024, 1, 1)], pa.timestamp("ns")), [date(2024, 1, 1)]),  # noqa: DTZ001
        (nullable("Date"), pa.array(["2024-01-01", None]), [date(2024, 1, 1), None]),
        (nullable("Date"), pa.array([1, None]), [date(1970, 1, 2), None]),
        (nullable("DateTime"), pa.array([NOON // 1000], pa.timestamp("s")), [NOON]),
        (nullable("DateTime"), pa.array([NOON * 1000, None], pa.timestamp("us", "Europe/Rome")), [NOON, None]),
        (nullable("DateTime"), pa.array([NOON * 1_000_000, -1_000_000], pa.timestamp("ns")), [NOON, -1]),
        (nullable("DateTime"), pa.array([999, -1], pa.timestamp("us")), [0, -1]),
        (nullable("DateTime"), pa.array([1_999_999], pa.timestamp("ns", "UTC")), [1]),
        (nullable("DateTime"), pa.array([NOON]), [NOON]),
        (nullable("DateTime"), pa.array(["2024-01-01T12:00:00Z", "2024-01-01T13:00:00+01:00"]), [NOON, NOON]),
        (nullable("DateTime"), pa.array([date(1970, 1, 2)]), [86_400_000]),
        (nullable("Vector", dimensions=2), pa.array([[1.0, 2.0], None]), [[1.0, 2.0], None]),
        (nullable("Vector", dimensions=2), pa.array([[1, 2]], pa.list_(pa.int64(), 2)), [[1.0, 2.0]]),
        (nullable("String", is_list=True), pa.array([["a"], None, []], pa.large_list(pa.string())), [["a"], None, []]),
        (nullable("I32", is_list=True), pa.array([[1, 2], [3]])[1:], [[3]]),
        (nullable("Date", is_list=True), pa.array([["1970-01-02"]]), [[date(1970, 1, 2)]]),
        (nullable("Blob"), pa.array([b"x", None]), [{"data": b"x", "uri": None}, None]),
        (
            nullable("Blob"),
            pa.array(["base64:aGk=", "s3://b/k"]),
            [{"data": b"hi", "uri": None}, {"data": None, "uri": "s3://b/k"}],
        ),
        (nullable("I32"), pa.nulls(2), [None, None]),
    ],
)
def test_a_cast_without_loss_is_made(declared: PropertyType, column: pa.Array[Any], expected: list[Any]) -> None:
    assert one(declared, column) == expected


@pytest.mark.parametrize(
    ("declared", "column", "index", "message"),
    [
        (nullable("String"), pa.array([1]), 0, r"expected String\?, got 1"),
        (nullable("Bool"), pa.array([1]), 0, r"expected Bool\?, got 1"),
        (nullable("I32"), pa.array([1, 2**31]), 1, "2147483648 is out of range for I32"),
        (nullable("U32"), pa.array([-1]), 0, "-1 is out of range for U32"),
        (nullable("I32"), pa.array([1.0, 1.5]), 1, r"expected I32\?, got 1\.5"),
        (nullable("I32"), pa.array(["1"]), 0, "got the text '1'"),
        (nullable("I32"), pa.array([True]), 0, "got the boolean True"),
        (nullable("F32"), pa.array([1.0, 1e39]), 1, "out of range for F32"),
        (nullable("F64"), pa.array([1.0, float("nan")]), 1, "nan is not a finite number"),
        (nullable("Date"), pa.array([NOON], pa.timestamp("ms")), 0, "has a time of day"),
        (nullable("Date"), pa.array([0, NOON]).cast(pa.date64()), 1, "has a time of day"),
        (nullable("Date"), pa.array(["2024-01-01", "soon"]), 1, "'soon' is not a date"),
        (nullable("DateTime"), pa.array(["noon"]), 0, "'noon' is not an instant"),
        (nullable("Vector", dimensions=2), pa.array([[1.0, 2.0], [1.0]]), 1, "expects 2 dimensions, got 1"),
        (nullable("Vector", dimensions=2), pa.array([[1.0, None]]), 0, "elements must be numeric"),
        (nullable("Vector", dimensions=1), pa.array([[1.0], [float("inf")]]), 1, "elements must be numeric"),
        (nullable("String", is_list=True), pa.array([["a"], [None]]), 1, "cannot hold null"),
        (nullable("I32", is_list=True), pa.array([[1], [2**40]]), 1, "item 1: 1099511627776 is out of range"),
        (nullable("String", enum_values=("a",)), pa.array(["a", "c"]), 1, "expected: a"),
        (PropertyType("I32"), pa.array([1, None]), 1, "^$"),
        (nullable("I32"), pa.array([1.0, float("inf")]), 1, "got inf"),
        (nullable("I32"), pa.array([1.0, 1e10]), 1, "10000000000 is out of range for I32"),
        (nullable("Blob"), pa.array([5]), 0, "expected Blob"),
    ],
)
def test_a_cast_with_loss_is_refused_with_the_row(
    declared: PropertyType, column: pa.Array[Any], index: int, message: str
) -> None:
    with pytest.raises(BadCell, match=message) as caught:
        cast_column(declared, column)
    assert caught.value.index == index


def test_missing_columns_take_defaults_or_null() -> None:
    people = read({"Person": pa.table({"name": ["Ada"]})})["node:Person"]
    assert rows(people, "id", "age", "city") == [("Ada", None, "Paris")]


@pytest.mark.parametrize(
    ("table", "rule", "message"),
    [
        ({"name": ["A"], "agee": [1]}, "unknown_field", "Person has no property 'agee': did you mean 'age'?"),
        ({"name": ["A"], "from": ["x"]}, "unknown_field", "no property 'from'"),
        ({"age": [1]}, "missing_column", "Person.name is required: the column is missing"),
        ({"name": ["A"], "_rowid": [1]}, "reserved_field", "'_rowid' is reserved"),
    ],
)
def test_columns_that_do_not_fit_the_type_are_refused(table: dict[str, Any], rule: str, message: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        read({"Person": pa.table(table)})
    assert message in str(caught.value)
    assert caught.value.rule == rule


def test_a_column_that_stands_twice_is_refused() -> None:
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["name", "name"])
    with pytest.raises(InvalidRecord, match="the column 'name' occurs twice"):
        read({"Person": table})


@pytest.mark.parametrize(("start", "end"), [("from", "to"), ("src", "dst")])
def test_edges_have_two_columns_of_ids(start: str, end: str) -> None:
    knows = read({"knows": pa.table({start: ["a"], end: ["b"]})})["edge:Knows"]
    assert rows(knows, "src", "dst", "since") == [("a", "b", None)]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["from"], "needs one column `to` (or `dst`): the column is missing"),
        (["from", "src", "to"], "needs one column `from` (or `src`): both are there"),
    ],
)
def test_edges_without_their_two_columns_are_refused(columns: list[str], message: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        read({"Knows": pa.table({name: ["a"] for name in columns})})
    assert message in str(caught.value)


def test_a_null_end_names_its_row() -> None:
    with pytest.raises(ValueViolation, match=r"Knows, row 2: required property Knows\.to has no value"):
        read({"Knows": pa.table({"from": ["a", "b"], "to": ["c", None]})})


def test_ends_may_be_given_as_values_of_the_key() -> None:
    schema = "node N { n: I64 @key } node D { on: Date @key } edge E: N -> D"
    table = pa.table({"from": pa.array([7.0]), "to": [date(1970, 1, 3)]})
    assert rows(read({"E": table}, schema)["edge:E"], "src", "dst") == [("7", "2")]


def test_rows_are_counted_across_batches() -> None:
    batches = [pa.record_batch({"name": ["a", "b"]}), pa.record_batch({"name": ["c", None]})]
    reader = pa.RecordBatchReader.from_batches(batches[0].schema, batches)
    with pytest.raises(ValueViolation, match=r"Person, row 4: required property Person\.name"):
        read({"Person": reader})


def test_pandas_frames_lose_their_index_and_turn_nan_into_null() -> None:
    frame = pd.DataFrame({"name": ["x", "Ada", "Bob"], "age": [0, 36, None]})[1:]
    assert rows(read({"Person": frame})["node:Person"], "id", "age") == [("Ada", 36), ("Bob", None)]


def test_pandas_moments_of_nanoseconds_are_cut_to_milliseconds() -> None:
    schema = "node T { at: DateTime }"
    stamps = pd.to_datetime(["2024-01-01T12:00:00"], utc=True).as_unit("ns")
    table = read({"T": pd.DataFrame({"at": stamps + pd.Timedelta(999_999, "ns")})}, schema)["node:T"]
    assert table.column("at").cast(pa.int64()).to_pylist() == [NOON]


def test_pandas_columns_of_mixed_types_are_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="age"):
        read({"Person": pd.DataFrame({"name": ["a", "b"], "age": [1, "x"]})})


def test_polars_frames_eager_and_lazy() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"name": ["Ada"], "age": [36]})
    for each in (frame, frame.lazy()):
        assert rows(read({"Person": each})["node:Person"], "id", "age") == [("Ada", 36)]


def test_lists_of_records() -> None:
    tables = read({"Person": [{"name": "Ada", "age": np.int64(36)}], "Knows": [{"from": "Ada", "dst": "Ada"}]})
    assert rows(tables["node:Person"], "id", "age", "city") == [("Ada", 36, "Paris")]
    assert rows(tables["edge:Knows"], "src", "dst") == [("Ada", "Ada")]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"name": "A", "agee": 1}, r"Person, record 2: Person has no property 'agee'"),
        ({"name": "A", "age": "x"}, r"Person, record 2: Person\.age: expected I32"),
        (5, r"Person, record 2: expected a record"),
    ],
)
def test_a_bad_record_of_a_list_is_named_by_its_number(record: object, message: str) -> None:
    with pytest.raises(InvalidRecord, match=message) as caught:
        read({"Person": [{"name": "Bob"}, record]})
    assert caught.value.row == 2


def test_other_arrow_producers() -> None:
    class Producer:
        def __arrow_c_array__(self, requested_schema: object = None) -> object:
            return pa.record_batch({"name": ["Ada"]}).__arrow_c_array__(requested_schema)

    assert rows(read({"Person": Producer()})["node:Person"], "id") == ["Ada"]
    assert rows(read({"Person": pa.record_batch({"name": ["Ada"]})})["node:Person"], "id") == ["Ada"]


def test_an_empty_table_touches_its_type() -> None:
    assert read({"Person": pa.table({"name": pa.array([], pa.string())})})["node:Person"].num_rows == 0
    assert read({"Person": []})["node:Person"].num_rows == 0


json_like = st.one_of(st.none(), st.integers(-5, 2**40), st.floats(), st.booleans(), st.text(max_size=3))


@given(
    st.lists(json_like, min_size=1, max_size=4),
    st.sampled_from(["s", "b", "i", "u", "f", "d", "day", "at", "role", "blob"]),
)
@settings(max_examples=300, deadline=None)
def test_no_column_raises_anything_but_our_errors(values: list[object], name: str) -> None:
    try:
        column = pa.array(values)
    except (pa.ArrowException, OverflowError):
        return
    try:
        table = read({"All": pa.table({name: column})}, EVERYTHING)["node:All"]
    except (InvalidRecord, ValueViolation):
        return
    assert table.num_rows == len(values)


def test_the_social_schema_of_these_tests_is_what_it_says() -> None:
    assert "city: String @default" in SOCIAL
    assert datetime.fromtimestamp(NOON / 1000, UTC).hour == 12
