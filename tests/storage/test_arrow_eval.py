"""Filters over rows in memory select what Lance selects: every answer is compared with Lance's own."""

from __future__ import annotations

import datetime as dt
import math
import struct
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.errors import InvalidInput
from omnigraph.storage.filters.arrow_eval import matching
from omnigraph.storage.filters.model import And, Compare, HasItem, IsNull, Not, OneOf, Or, TextPredicate
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.tables.new_tables import create_table
from omnigraph.storage.tables.table import Table, TableStore
from omnigraph.world import REAL

if TYPE_CHECKING:
    from omnigraph.storage.filters.model import Filter

NAN, INF = math.nan, math.inf
NEGATIVE_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000000))[0]
LISTS: dict[str, Any] = {"whole": pa.int32(), "words": pa.string(), "reals": pa.float64(), "narrow_reals": pa.float32()}
SAMPLES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i32": (pa.int32(), [0, 1, -1, 2**31 - 1, -(2**31), 5]),
    "u32": (pa.uint32(), [0, 1, 2, 2**32 - 1, 7]),
    "i64": (pa.int64(), [0, 1, -1, 2**63 - 1, -(2**63), 2**53, 2**53 + 1]),
    "u64": (pa.uint64(), [0, 1, 2**64 - 1, 2**63, 2**53 + 1]),
    "f32": (pa.float32(), [0.0, -0.0, 0.1, NAN, INF, -INF, 16777216.0]),
    "f64": (pa.float64(), [0.0, -0.0, 0.1, NAN, NEGATIVE_NAN, INF, -INF, 2.0**53]),
    "text": (pa.string(), ["", "a", "A", "é", "a'b", "%", "\uffff", "\U0001f600", "a\\b"]),
    "flag": (pa.bool_(), [True, False]),
    "day": (pa.date32(), [0, 1, -1, 20_000]),
    "moment": (pa.date64(), [0, 1, -1, 86_400_000, 86_400_001]),
}
NUMBERS = st.one_of(
    st.sampled_from([0, 1, -1, 2**31, 2**32, 2**53, 2**53 + 1, 2**63, 2**64, 10**400, -(10**400), 16777217]),
    st.sampled_from([0.0, -0.0, 0.1, 0.5, NAN, INF, -INF, 1e300, 2.0**53, 2.0**63]),
    st.integers(-3, 3),
)
DAYS = st.dates(dt.date(1969, 12, 30), dt.date(1970, 1, 4))
MOMENTS = st.sampled_from([0, 1, -1, 86_400_000, 86_400_001, 500]).map(
    lambda each: dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=each)
)
TEXTS = st.sampled_from(["", "a", "A", "é", "'", "a'b", "%", "_", "\\", "\uffff", "\U0001f600"])
LITERALS: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(["i32", "u32", "i64", "u64", "f32", "f64"], NUMBERS),
    "text": TEXTS,
    "flag": st.booleans(),
    "day": DAYS,
    "moment": MOMENTS,
}
ITEMS: dict[str, st.SearchStrategy[Any]] = {"whole": NUMBERS, "words": TEXTS, "reals": NUMBERS, "narrow_reals": NUMBERS}


def _stored(kind: pa.DataType, values: list[Any]) -> pa.Array[Any]:
    """Dates from whole numbers, with the time of day that pyarrow would drop."""
    if pa.types.is_date(kind):
        carrier: Any = pa.int32() if pa.types.is_date32(kind) else pa.int64()
        dates: pa.Array[Any] = pa.array(values, carrier).view(kind)
        return dates
    return pa.array(values, kind)


def _rows() -> pa.Table:
    """Every sample of every column, and null, beside one another."""
    length = 1 + max(len(values) for _, values in SAMPLES.values())
    columns: dict[str, pa.Array[Any]] = {"id": pa.array([f"r{n}" for n in range(length)])}
    for name, (kind, values) in SAMPLES.items():
        padded = [None, *values] * length
        columns[name] = _stored(kind, padded[:length])
    lists: dict[str, list[Any]] = {
        "whole": [[], [1], [None], [1, None], None, [2**31 - 1, 0], [5], [], None, [0]],
        "words": [[], ["a"], [None], ["a", None], None, ["", "'"], ["é"], [], None, ["%"]],
        "reals": [[], [0.0], [None], [-0.0, None], None, [NAN], [0.1], [INF], None, [2.0**53]],
        "narrow_reals": [[], [0.0], [None], [-0.0], None, [NAN], [0.1], [INF], None, [16777216.0]],
    }
    for name, item in LISTS.items():
        columns[name] = pa.array((lists[name] * 2)[:length], pa.list_(pa.field("item", item)))
    return pa.table(columns)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Table, pa.Table]:
    rows = _rows()
    store = TableStore(parse_location(tmp_path_factory.mktemp("filters"), REAL), REAL)
    return create_table(store, "rows", rows.schema, [rows]), rows


def _leaf() -> st.SearchStrategy[Filter]:
    operators = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
    names = st.sampled_from(sorted(SAMPLES))
    compare = names.flatmap(lambda name: st.builds(Compare, st.just(name), operators, _maybe(LITERALS[name])))
    one_of = names.flatmap(
        lambda name: st.builds(OneOf, st.just(name), st.lists(_maybe(LITERALS[name]), max_size=6).map(tuple))
    )
    text = st.builds(TextPredicate, st.just("text"), st.sampled_from(["starts_with", "contains"]), TEXTS)
    item = st.sampled_from(sorted(ITEMS)).flatmap(lambda name: st.builds(HasItem, st.just(name), _maybe(ITEMS[name])))
    null = st.builds(IsNull, st.sampled_from([*SAMPLES, *LISTS]))
    return st.one_of(compare, one_of, text, item, null)


def _maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(values, values, values, st.none())


FILTERS = st.recursive(
    _leaf(),
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(And, st.lists(inner, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, max_size=3).map(tuple)),
    ),
    max_leaves=5,
)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(row_filter=FILTERS)
def test_a_filter_selects_the_same_rows_in_memory_and_in_lance(
    stored: tuple[Table, pa.Table], row_filter: Filter
) -> None:
    table, rows = stored
    expected = table.read(["id"], row_filter).column("id").to_pylist()
    assert matching(rows, row_filter).column("id").to_pylist() == expected


@pytest.mark.parametrize(
    "row_filter",
    [
        Compare("missing", "=", 1),
        Compare("text", "=", 1),
        Compare("i32", "=", "1"),
        Compare("flag", "=", 1),
        TextPredicate("i32", "contains", "a"),
        HasItem("text", "a"),
    ],
    ids=repr,
)
def test_a_filter_that_lance_would_not_take_is_refused_in_memory_too(
    stored: tuple[Table, pa.Table], row_filter: Filter
) -> None:
    table, rows = stored
    with pytest.raises(InvalidInput):
        table.read(["id"], row_filter)
    with pytest.raises(InvalidInput):
        matching(rows, row_filter)


def test_no_rows_match_any_filter_without_an_error(stored: tuple[Table, pa.Table]) -> None:
    _, rows = stored
    nothing = rows.slice(0, 0)
    assert matching(nothing, HasItem("words", "a")).num_rows == 0
    assert matching(nothing, Not(Compare("f32", "<", 0.5))).num_rows == 0
