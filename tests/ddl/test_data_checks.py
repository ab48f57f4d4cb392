"""Rows that repeat others are found among many without holding them, and never missed or made up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.ddl.data_checks import candidate_rows
from omnigraph.errors import SchemaChangeRefused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VALUES = st.one_of(st.none(), st.sampled_from(["", "a", "b", "c", "d"]))


def repeated(rows: list[tuple[Any, ...]], fragment: int) -> list[tuple[int, tuple[Any, ...]]]:
    """The rows that are found, by their places."""
    table = pa.table(
        {"at": pa.array(range(len(rows))), **{name: [row[at] for row in rows] for at, name in enumerate("xy")}},
        schema=pa.schema([("at", pa.int64()), ("x", pa.string()), ("y", pa.string())]),
    )

    def read() -> Iterator[pa.Table]:
        yield from (table.slice(start, fragment) for start in range(0, len(rows), fragment))

    found = [each.to_pylist() for each in candidate_rows(read, ["x", "y"])]
    return [(row["at"], (row["x"], row["y"])) for rows in found for row in rows]


@settings(deadline=None, max_examples=60)
@given(rows=st.lists(st.tuples(VALUES, VALUES), max_size=40), fragment=st.integers(1, 7))
def test_exactly_the_rows_that_stand_twice_are_found(rows: list[tuple[Any, ...]], fragment: int) -> None:
    whole = [row for row in rows if None not in row]
    expected = [(at, row) for at, row in enumerate(rows) if None not in row and whole.count(row) > 1]
    assert repeated(rows, fragment) == expected


def test_very_many_repeats_are_looked_at_some_at_a_time() -> None:
    table = pa.table({"x": ["a"] * 8})
    fragments = [each.num_rows for each in candidate_rows(lambda: iter([table]), ["x"], at_once=3)]
    assert fragments == [4, 4, 2]


def test_a_rule_over_several_properties_is_refused_with_the_rows_that_break_it(tmp_path: Path) -> None:
    schema = "node P { k: String @key  a: F64?  b: DateTime? }"
    graph = og.init(tmp_path / "g", schema=schema)
    moment = "2020-02-02T10:11:12Z"
    rows = [{"k": f"k{at}", "a": float(at), "b": moment} for at in range(50)]
    rows += [{"k": "late", "a": 7.0, "b": moment}, {"k": "null", "a": None, "b": moment}, {"k": "none", "b": moment}]
    graph.load({"P": rows})
    with pytest.raises(SchemaChangeRefused, match="late") as refusal:
        graph.apply_schema(schema.replace(" }", "  @unique(a, b) }"))
    assert "k7" in refusal.value.message
    assert "null" not in refusal.value.message
    graph.mutate('query q() { delete P where k = "late" }')
    graph.apply_schema(schema.replace(" }", "  @unique(a, b) }"))
