"""A value becomes its declared type exactly, or the message says why not; columns agree with single values."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.catalog.catalog import PropertyType
from omnigraph.values.columns import BadCell, column_of, stored_column
from omnigraph.values.scalars import WrongValue, stored_value

ROLE = PropertyType("String", enum_values=("admin", "user"))
VECTOR = PropertyType("Vector", dimensions=2)


@pytest.mark.parametrize(
    ("declared", "value", "stored"),
    [
        (PropertyType("String"), "", ""),
        (PropertyType("String", nullable=True), None, None),
        (ROLE, "user", "user"),
        (PropertyType("Bool"), False, False),
        (PropertyType("I32"), -(2**31), -(2**31)),
        (PropertyType("U64"), 2**64 - 1, 2**64 - 1),
        (PropertyType("I64"), np.int64(5), 5),
        (PropertyType("F32"), 3, 3.0),
        (PropertyType("F32"), 3.4e38, 3.4e38),
        (PropertyType("F64"), 1.5, 1.5),
        (PropertyType("Date"), "1970-01-03", 2),
        (PropertyType("Date"), -1, -1),
        (PropertyType("Date"), date(1970, 1, 2), 1),
        (PropertyType("DateTime"), "1970-01-01T00:00:01Z", 1_000),
        (PropertyType("DateTime"), "1970-01-01T02:00:00.5+02:00", 500),
        (PropertyType("DateTime"), "1969-12-31T23:59:59.999Z", -1),
        (PropertyType("DateTime"), 7, 7),
        (PropertyType("DateTime"), datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), 0),
        (PropertyType("DateTime"), datetime(1970, 1, 1), 0),  # noqa: DTZ001
        (VECTOR, [1, 2.5], [1.0, 2.5]),
        (VECTOR, np.array([1.0, 2.5]), [1.0, 2.5]),
        (PropertyType("String", is_list=True), [], []),
        (PropertyType("Date", is_list=True), ["1970-01-02", 5], [1, 5]),
        (PropertyType("Blob"), "base64:aGk=", {"data": b"hi", "uri": None}),
        (PropertyType("Blob"), "base64:", {"data": b"", "uri": None}),
        (PropertyType("Blob"), b"hi", {"data": b"hi", "uri": None}),
        (PropertyType("Blob"), "s3://bucket/key", {"data": None, "uri": "s3://bucket/key"}),
    ],
)
def test_a_value_that_fits_is_stored_as_declared(declared: PropertyType, value: object, stored: object) -> None:
    assert stored_value(declared, value) == stored


@pytest.mark.parametrize(
    ("declared", "value", "rule", "message"),
    [
        (PropertyType("String"), None, "required", "a value is required"),
        (PropertyType("String"), 5, "type", "expected String, got 5"),
        (PropertyType("String"), "\ud800", "text", "not valid Unicode"),
        (ROLE, "guest", "enum", r"invalid enum value 'guest' \(expected: admin, user\)"),
        (PropertyType("Bool"), 1, "type", "expected Bool, got 1"),
        (PropertyType("Bool"), "true", "type", "got the text 'true'"),
        (PropertyType("I32"), 2**31, "range", "2147483648 is out of range for I32"),
        (PropertyType("U32"), -1, "range", "-1 is out of range for U32"),
        (PropertyType("U64"), 2**64, "range", "out of range for U64"),
        (PropertyType("I64"), 1.0, "type", r"expected I64, got 1\.0"),
        (PropertyType("I64"), True, "type", "got the boolean True"),
        (PropertyType("F32"), 1e39, "range", "out of range for F32"),
        (PropertyType("F64"), 10**400, "range", "out of range for F64"),
        (PropertyType("F64"), float("nan"), "range", "nan is not a finite number"),
        (PropertyType("F64"), float("inf"), "range", "inf is not a finite number"),
        (PropertyType("F64"), "1.5", "type", "got the text '1.5'"),
        (PropertyType("Date"), "2024-02-30", "text", "'2024-02-30' is not a date"),
        (PropertyType("Date"), "20240101", "text", "write YYYY-MM-DD"),
        (PropertyType("Date"), 2**31, "range", "out of range"),
        (PropertyType("Date"), datetime(2024, 1, 1, tzinfo=UTC), "type", "expected Date"),
        (PropertyType("DateTime"), "noon", "text", "'noon' is not an instant"),
        (PropertyType("DateTime"), True, "type", "expected DateTime"),
        (VECTOR, [1.0], "length", r"Vector\(2\) expects 2 dimensions, got 1"),
        (VECTOR, [1.0, "x"], "type", "elements must be numeric: expected F32, got the text 'x'"),
        (VECTOR, [1.0, None], "type", "elements must be numeric"),
        (VECTOR, "x", "type", r"expected Vector\(2\)"),
        (PropertyType("I64", is_list=True), [1, None], "null", r"a list cannot hold null \(item 2\)"),
        (PropertyType("I64", is_list=True), [1, "x"], "type", "item 2: expected I64, got the text 'x'"),
        (PropertyType("I64", is_list=True), 1, "type", r"expected \[I64\], got 1"),
        (PropertyType("Blob"), "base64:%%", "text", "is not base64"),
        (PropertyType("Blob"), "", "text", "not an empty text"),
        (PropertyType("Blob"), "s3://" + "x" * 65_536, "length", "longer than 65536 bytes"),
        (PropertyType("Blob"), 5, "type", "expected Blob"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_reason(
    declared: PropertyType, value: object, rule: str, message: str
) -> None:
    with pytest.raises(WrongValue, match=message) as caught:
        stored_value(declared, value)
    assert caught.value.rule == rule


def test_a_column_names_the_first_value_that_does_not_fit() -> None:
    with pytest.raises(BadCell, match="expected I32") as caught:
        column_of(PropertyType("I32"), [1, 2, "x", None])
    assert (caught.value.index, caught.value.rule) == (2, "type")


def test_a_required_column_names_the_first_null() -> None:
    with pytest.raises(BadCell) as caught:
        column_of(PropertyType("I32"), [1, None, "x", None][:2])
    assert (caught.value.index, caught.value.rule) == (1, "required")


def test_a_lenient_column_takes_a_scalar_of_another_type_for_null_and_nothing_else() -> None:
    number = PropertyType("I32", nullable=True)
    assert column_of(number, [1, "x", True], lenient=True).to_pylist() == [1, None, None]
    with pytest.raises(BadCell, match="out of range"):
        column_of(number, [2**40], lenient=True)
    with pytest.raises(BadCell, match="expects 2 dimensions"):
        column_of(VECTOR, [[1]], lenient=True)
    with pytest.raises(BadCell, match="expected I32, got the text 'x'") as caught:
        column_of(PropertyType("I32"), ["x"], lenient=True)
    assert caught.value.rule == "required"


def test_moments_keep_their_time_of_day() -> None:
    column = column_of(PropertyType("DateTime"), ["2024-01-02T03:04:05.678Z"])
    assert column.type == pa.date64()
    assert column.cast(pa.int64()).to_pylist() == [1_704_164_645_678]


SCALARS = ["String", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime", "Blob"]
declarations = st.one_of(
    st.builds(PropertyType, st.sampled_from(SCALARS), st.booleans()),
    st.builds(PropertyType, st.sampled_from(SCALARS[:-1]), st.booleans(), st.just(True)),
    st.builds(PropertyType, st.just("Vector"), st.booleans(), dimensions=st.integers(1, 3)),
    st.just(ROLE),
)
atoms = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.integers(-3, 3),
    st.floats(),
    st.text(max_size=4),
    st.sampled_from(
        ["admin", "2024-01-02", "0000-01-01", "9999-12-31", "2024-01-02T03:04:05Z", "0000-01-01T00:00:00Z"]
    ),
    st.sampled_from(["2024-01-02T03:04:60Z", "2024-01-02T03:04:05+14:00", "base64:aGk=", "base64:!"]),
)
values = st.one_of(atoms, st.lists(atoms, max_size=3), st.lists(st.floats(width=32), min_size=2, max_size=2))


@given(declarations, st.lists(values, max_size=4))
@settings(max_examples=600, deadline=None)
def test_columns_and_single_values_agree(declared: PropertyType, given_values: list[object]) -> None:
    try:
        expected = stored_column(declared, [stored_value(declared, each) for each in given_values])
    except WrongValue:
        with pytest.raises(BadCell):
            column_of(declared, given_values)
    else:
        assert column_of(declared, given_values).equals(expected)
