"""Typed filters: Lance's answer is what the filter means, for every type, at its edges, and for hostile input."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.errors import InvalidInput
from omnigraph.storage.filters.arrow_eval import truth
from omnigraph.storage.filters.model import (
    DEEPEST,
    And,
    Compare,
    Filter,
    HasItem,
    IsNull,
    Not,
    OneOf,
    Or,
    TextPredicate,
    equal,
    one_of,
    render,
)
from omnigraph.storage.tables.indexes import IndexSpec, stage_indexes
from omnigraph.storage.tables.staging import commit_staged, stage_delete
from storage.every_type import date64, made, open_store
from storage.row_logic import Kinds, Row, holds, in_width

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from omnigraph.storage.filters.literals import Operator
    from omnigraph.storage.tables.table import Table

OPERATORS: tuple[Operator, ...] = ("=", "!=", "<", "<=", ">", ">=")
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
TYPES: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "i32": pa.int32(),
    "i64": pa.int64(),
    "u32": pa.uint32(),
    "u64": pa.uint64(),
    "f32": pa.float32(),
    "f64": pa.float64(),
    "text": pa.utf8(),
    "date": pa.date32(),
    "moment": pa.date64(),
}
KINDS: Kinds = {name: name for name in TYPES} | {f"{name}s": name for name in TYPES} | {"id": "text"}
FIELDS: list[pa.Field[Any]] = [
    pa.field("id", pa.utf8(), nullable=False),
    *(pa.field(name, kind) for name, kind in TYPES.items()),
    *(pa.field(f"{name}s", pa.list_(kind)) for name, kind in TYPES.items()),
]
SCHEMA = pa.schema(FIELDS)
HOSTILE = ["", "'", "''", "\\", "\\'", "%", "_", '"', "`", "\0", "a\nb", "' or true --", "é", "☃", "🜚", "null", "--"]
WHOLE = [-(2**31), 2**31 - 1, -(2**63), 2**63 - 1, 2**32 - 1, 2**64 - 1, 2**53, 2**53 + 1, 0, 1, -1]
FLOATS = [0.0, -0.0, 0.1, -1.5, 5e-324, 1e-45, 16777217.0, 3.4028234663852886e38, 1e300, math.inf, -math.inf, math.nan]
DATES = [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2024, 2, 29), dt.date(9999, 12, 31)]
MOMENTS = [
    dt.datetime(1, 1, 1, tzinfo=dt.UTC),
    dt.datetime(1677, 9, 21, tzinfo=dt.UTC),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999000, dt.UTC),
    dt.datetime(2020, 1, 1, 0, 0, 0, 1000, dt.UTC),
    dt.datetime(2262, 4, 12, tzinfo=dt.UTC),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999000, dt.UTC),
]
BEYOND = [2**31, 2**32, 2**63, 2**64, 2**70, -(2**31) - 1, -(2**63) - 1, 10**40, -(10**40), 10**400, -(10**400)]


def stored_values(name: str) -> list[Any]:
    """The values that a column of the type can hold, among those that have caused trouble somewhere."""
    if name[0] in "iu":
        width, least = int(name[1:]), -(2 ** (int(name[1:]) - 1)) if name[0] == "i" else 0
        return [each for each in WHOLE if least <= each < least + 2**width]
    if name == "f32":
        return [each for each in FLOATS if each != 1e300 and (math.isnan(each) or in_width(each, "f32") == each)]
    known: dict[str, list[Any]] = {"bool": [True, False], "f64": FLOATS, "text": HOSTILE, "date": DATES}
    return MOMENTS if name == "moment" else known[name]


def asked_values(name: str) -> list[Any]:
    """What such a column may be compared with: also numbers that it cannot hold."""
    if name[0] in "iuf":
        return [*WHOLE, *FLOATS, *BEYOND, 2.7, None]
    if name == "moment":
        finer = [each + dt.timedelta(microseconds=1) for each in MOMENTS]
        elsewhere = [dt.datetime(2020, 1, 1, 2, 0, 0, 1000, dt.timezone(dt.timedelta(hours=2)))]
        zoneless = [each.replace(tzinfo=None) for each in MOMENTS]
        return [*MOMENTS, *finer, *zoneless, *elsewhere, None]
    return [*stored_values(name), None]


def as_table(rows: list[Row]) -> pa.Table:
    columns = [_array([row["id"] for row in rows], pa.utf8())]
    columns += [_array([row[name] for row in rows], kind) for name, kind in TYPES.items()]
    columns += [_list_array([row[f"{name}s"] for row in rows], kind) for name, kind in TYPES.items()]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array[Any]:
    if kind != pa.date64():
        return pa.array(values, kind)
    milliseconds = dt.timedelta(milliseconds=1)
    return date64([None if each is None else (each - EPOCH) // milliseconds for each in values])


def _list_array(values: list[list[Any] | None], kind: pa.DataType) -> pa.Array[Any]:
    items = [item for each in values for item in each or ()]
    offsets: list[int | None] = []
    position = 0
    for each in values:
        offsets.append(None if each is None else position)
        position += len(each or ())
    return pa.ListArray.from_arrays(pa.array([*offsets, position], pa.int32()), _array(items, kind))


def matching(rows: list[Row], row_filter: Filter) -> list[str]:
    return sorted(row["id"] for row in rows if holds(row, row_filter, KINDS))


def found(table: Table, row_filter: Filter) -> list[str]:
    return sorted(map(str, table.read(["id"], row_filter).column("id").to_pylist()))


def row(number: int, **values: Any) -> Row:
    return {"id": f"{number:03}", **dict.fromkeys(SCHEMA.names[1:]), **values}


def edge_rows() -> list[Row]:
    """Every troublesome value once in its column and once in a list, and rows without any."""
    values = [(name, value) for name in TYPES for value in stored_values(name)]
    rows = [row(number, **{name: value, f"{name}s": [None, value]}) for number, (name, value) in enumerate(values)]
    return [*rows, row(len(rows)), row(len(rows) + 1, **{f"{name}s": [] for name in TYPES})]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return edge_rows()


@pytest.fixture(scope="module")
def table(rows: list[Row], tmp_path_factory: pytest.TempPathFactory) -> Table:
    return made(open_store(str(tmp_path_factory.mktemp("edges"))), as_table(rows))


@pytest.fixture(scope="module")
def indexed(rows: list[Row], tmp_path_factory: pytest.TempPathFactory) -> Table:
    """The same rows, a part of them behind an index on every column and a part not."""
    store = open_store(str(tmp_path_factory.mktemp("indexed")))
    half = as_table(rows[::2])
    specs = [IndexSpec(name, "btree", f"{name}_idx") for name in ("id", *TYPES)]
    behind = commit_staged(stage_indexes(made(store, half), specs)).table
    lance.write_dataset(as_table(rows[1::2]), behind.handle.uri, mode="append")
    return store.open_newest(behind.path)


@pytest.mark.parametrize("name", TYPES)
def test_every_comparison_at_the_edges_of_every_type(name: str, table: Table, indexed: Table, rows: list[Row]) -> None:
    for value in asked_values(name):
        for operator in OPERATORS:
            asked = Compare(name, operator, value)
            assert found(table, asked) == matching(rows, asked), asked
            assert found(indexed, asked) == matching(rows, asked), asked


@pytest.mark.parametrize("name", TYPES)
def test_membership_at_the_edges_of_every_type(name: str, table: Table, indexed: Table, rows: list[Row]) -> None:
    values = asked_values(name)
    for chosen in [values, values[:-1], values[:2], [None], [], *([each] for each in values)]:
        for asked in (one_of(name, chosen), Not(one_of(name, chosen))):
            assert found(table, asked) == matching(rows, asked), asked
            assert found(indexed, asked) == matching(rows, asked), asked


@pytest.mark.parametrize("name", TYPES)
def test_items_of_lists_of_every_type(name: str, table: Table, rows: list[Row]) -> None:
    for value in asked_values(name):
        for asked in (HasItem(f"{name}s", value), Not(HasItem(f"{name}s", value))):
            assert found(table, asked) == matching(rows, asked), asked


def test_text_is_searched_literally(table: Table, indexed: Table, rows: list[Row]) -> None:
    for needle in [*HOSTILE, "a", "b", "\n"]:
        for asked in (TextPredicate("text", "starts_with", needle), TextPredicate("text", "contains", needle)):
            for each in (asked, Not(asked)):
                assert found(table, each) == matching(rows, each), each
                assert found(indexed, each) == matching(rows, each), each


def leaves() -> st.SearchStrategy[Filter]:
    def of_column(name: str) -> st.SearchStrategy[Filter]:
        values = st.sampled_from(asked_values(name)) | _anything(name)
        return st.one_of(
            st.builds(Compare, st.just(name), st.sampled_from(OPERATORS), values),
            st.builds(lambda chosen: OneOf(name, tuple(chosen)), st.lists(values, max_size=4)),
            st.builds(HasItem, st.just(f"{name}s"), values),
            st.builds(IsNull, st.sampled_from([name, f"{name}s"])),
        )

    texts = st.builds(TextPredicate, st.just("text"), st.sampled_from(["starts_with", "contains"]), _anything("text"))
    return st.sampled_from(list(TYPES)).flatmap(of_column) | texts


def _anything(name: str) -> st.SearchStrategy[Any]:
    if name[0] in "iuf":
        return st.integers(-(2**65), 2**65) | st.floats()
    return {
        "bool": st.booleans(),
        "text": st.text(max_size=6),
        "date": st.dates(),
        "moment": st.datetimes(timezones=st.just(dt.UTC)),
    }[name]


def filters() -> st.SearchStrategy[Filter]:
    return st.recursive(
        leaves(),
        lambda inner: st.one_of(
            st.builds(Not, inner),
            st.builds(lambda each: And(tuple(each)), st.lists(inner, max_size=4)),
            st.builds(lambda each: Or(tuple(each)), st.lists(inner, max_size=4)),
        ),
        max_leaves=12,
    )


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=filters())
def test_any_filter_over_the_edges_means_what_it_says(
    asked: Filter, table: Table, indexed: Table, rows: list[Row]
) -> None:
    expected = matching(rows, asked)
    assert found(table, asked) == expected
    assert found(indexed, asked) == expected
    assert table.count_rows(asked) == len(expected)


def generated_rows() -> st.SearchStrategy[list[Row]]:
    def stored(name: str) -> st.SearchStrategy[Any]:
        known = st.sampled_from(stored_values(name))
        if name[0] in "iu":
            return known | st.integers(min(stored_values(name)), max(stored_values(name)))
        if name[0] == "f":
            return known | st.floats(width=32 if name == "f32" else 64)
        if name == "moment":
            return known | _anything(name).map(lambda each: each.replace(microsecond=each.microsecond // 1000 * 1000))
        return known | _anything(name)

    columns = {name: st.none() | stored(name) for name in TYPES} | {
        f"{name}s": st.none() | st.lists(st.none() | stored(name), max_size=2) for name in TYPES
    }
    return st.lists(st.fixed_dictionaries(columns), min_size=1, max_size=6).map(
        lambda found: [{"id": f"{number:03}", **each} for number, each in enumerate(found)]
    )


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(content=generated_rows(), asked=st.lists(filters(), min_size=1, max_size=4))
def test_any_filter_over_any_rows_means_what_it_says(
    content: list[Row], asked: list[Filter], tmp_path_factory: pytest.TempPathFactory
) -> None:
    small = made(open_store(str(tmp_path_factory.mktemp("rows"))), as_table(content))
    for each in asked:
        assert found(small, each) == matching(content, each)


def test_a_filter_removes_the_rows_that_it_finds(rows: list[Row], tmp_path: Path) -> None:
    asked = Or(
        (
            Compare("moment", "<", dt.datetime(1700, 1, 1, tzinfo=dt.UTC)),
            Compare("i64", "=", -(2**63)),
            HasItem("u64s", 2**64 - 1),
            Compare("f32", ">", 10**40),
        )
    )
    content = made(open_store(str(tmp_path)), as_table(rows))
    staged = stage_delete(content, asked)
    assert staged is not None
    assert staged.deleted == len(matching(rows, asked)) > 3
    left = commit_staged(staged).table
    assert found(left, And(())) == sorted({each["id"] for each in rows} - set(matching(rows, asked)))


# -- hostile and wrong input -------------------------------------------------------------------------------------------

MISMATCHES: list[tuple[str, Any]] = [
    ("i32", "1"),
    ("i32", True),
    ("bool", 1),
    ("text", 1),
    ("text", b"bytes"),
    ("date", dt.datetime(2020, 1, 1, tzinfo=dt.UTC)),
    ("moment", dt.date(2020, 1, 1)),
    ("date", "2020-01-01"),
    ("f64", Decimal(1)),
    ("i64s", 1),
    ("i64", [1]),
]


@pytest.mark.parametrize(("column", "value"), MISMATCHES)
def test_a_value_of_another_type_is_refused_with_both_named(table: Table, column: str, value: Any) -> None:
    for asked in (Compare(column, "=", value), OneOf(column, (value,))):
        with pytest.raises(InvalidInput, match=column):
            found(table, asked)


@pytest.mark.parametrize(
    "asked",
    [
        equal("nobody", 1),
        IsNull("nobody"),
        HasItem("text", "a"),
        TextPredicate("i64", "contains", "1"),
        equal("text", "lone \ud800"),
        TextPredicate("text", "contains", "\udfff"),
        Compare("text", "or 1=1 --", "x"),  # type: ignore[arg-type]
        equal("text` = 'x' or true --", "x"),
        equal("", "x"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_read(table: Table, asked: Filter) -> None:
    with pytest.raises(InvalidInput):
        found(table, asked)


def test_without_a_schema_only_text_is_compared() -> None:
    assert render(equal("object_id", "it's")) == "`object_id` = 'it''s'"
    with pytest.raises(InvalidInput):
        render(equal("version", 7))
    with pytest.raises(InvalidInput):
        render(equal("a`b", "x"))


NAMES = [
    "Name",
    "name",
    "a b",
    "q'x",
    'd"q',
    "x;--",
    "ü",
    "select",
    "back\\slash",
    "NULL",
    "not",
    "(",
    "1",
    "a,b",
    "%s",
]


def test_hostile_column_names_are_only_names(tmp_path: Path) -> None:
    content = pa.table({"id": ["a", "b"], **{name: pa.array([0, number]) for number, name in enumerate(NAMES, 1)}})
    named = made(open_store(str(tmp_path)), content)
    for number, name in enumerate(NAMES, 1):
        assert found(named, equal(name, number)) == ["b"]
        assert found(named, And((equal(name, 0), Not(IsNull(name))))) == ["a"]


def test_columns_that_every_table_has_can_be_asked_for(table: Table) -> None:
    assert table.count_rows(Compare("_row_created_at_version", ">=", 1)) == table.count_rows()
    assert table.count_rows(equal("_rowid", 3)) == 1
    assert table.count_rows(equal("_rowid", -1)) == 0


def test_very_long_lists_are_answered(table: Table) -> None:
    assert found(table, one_of("id", [f"{number:03}" for number in range(-50_000, 2)])) == ["000", "001"]
    assert table.count_rows(one_of("i64", range(10_000))) == 2
    assert table.count_rows(one_of("moment", [EPOCH + dt.timedelta(days=n) for n in range(5_000)])) == 0


def nested(leaf: Filter, depth: int) -> Filter:
    for level in range(depth):
        kind = And if level % 2 else Or
        leaf = kind((leaf, equal("id", str(level))))
    return leaf


def test_deep_filters_are_answered_quickly_or_refused(table: Table) -> None:
    many: Filter = equal("id", "000")
    for _ in range(500):
        many = Not(many)
    assert found(table, many) == ["000"]
    for _ in range(100):
        many = And((many, And((equal("id", "000"),))))
    assert found(table, many) == ["000"]
    assert table.count_rows(nested(equal("id", "000"), DEEPEST)) >= 0
    for depth in (DEEPEST + 1, 5_000):
        with pytest.raises(InvalidInput, match="levels deep"):
            found(table, nested(equal("id", "000"), depth))


def test_wide_filters_are_answered(table: Table) -> None:
    wide = Or(tuple(equal("id", f"{number:03}") for number in range(2_000)))
    assert table.count_rows(wide) == table.count_rows()


def ids_of(rows: Iterable[Row]) -> list[str]:
    return [each["id"] for each in rows]


def test_no_condition_is_true_and_no_alternative_is_false(table: Table, rows: list[Row]) -> None:
    assert found(table, And(())) == ids_of(rows)
    assert found(table, Or(())) == []
    assert found(table, Not(Or(()))) == ids_of(rows)
    assert found(table, OneOf("i32", ())) == []


@pytest.mark.parametrize(
    "where",
    [
        TextPredicate("text", "starts_with", "a"),
        TextPredicate("text", "contains", "b"),
        equal("text", "ab"),
        one_of("text", ["b", "c"]),
    ],
)
def test_large_strings_are_searched_in_memory_as_in_lance(tmp_path: Path, where: Filter) -> None:
    rows = pa.table({"id": ["1", "2", "3"], "text": pa.array(["ab", "b", None], pa.large_string())})
    found = made(open_store(str(tmp_path)), rows).read(["id"], where).column("id").to_pylist()
    assert found == rows.filter(truth(where, rows)).column("id").to_pylist()
