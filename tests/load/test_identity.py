"""Rows get the id that the schema says: from the key, from the input, or a new one."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from load.loading import read, rows, strict
from omnigraph.catalog.key_ids import edge_id, node_id
from omnigraph.errors import InvalidRecord, UniqueViolation
from omnigraph.language.schema.compile import compile_schema
from omnigraph.values.row_ids import mint_ulids
from omnigraph.world import REAL, encode_ulid
from seeded_world import SeededWorld

ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")


def test_minted_ids_are_ulids_and_all_different() -> None:
    ids = mint_ulids(5_000, REAL).to_pylist()
    assert len(set(ids)) == 5_000
    assert all(ULID.fullmatch(each) for each in ids)
    assert mint_ulids(0, REAL).to_pylist() == []


def test_minted_ids_are_written_as_the_world_writes_them() -> None:
    randomness = SeededWorld(seed=3).random_bits(160)
    world = SeededWorld(seed=3)
    first, second = mint_ulids(2, world).to_pylist()
    moment = (world.start_us + 2_000) // 1_000
    assert first == encode_ulid(moment, randomness >> 80)
    assert second == encode_ulid(moment, randomness & (2**80 - 1))


def test_keyless_rows_keep_the_ids_they_come_with_and_get_new_ones_otherwise() -> None:
    text = '{"type":"Note","data":{"id":"n1"}}\n{"type":"Note"}\n{"type":"Note","data":{"id":null}}'
    first, second, third = rows(strict(text)["node:Note"], "id")
    assert first == "n1"
    assert ULID.fullmatch(second)
    assert ULID.fullmatch(third)
    assert second != third


def test_edges_without_a_key_are_a_multiset() -> None:
    edge = '{"edge":"Knows","from":"a","to":"b"}'
    assert strict(f"{edge}\n{edge}")["edge:Knows"].num_rows == 2


def test_edges_with_a_key_are_a_set() -> None:
    schema = "node A { n: String @key } edge E: A -> A { @key(src, dst) }"
    edge = '{"edge":"e","from":"a","to":"b"}'
    assert rows(strict(edge, schema)["edge:E"], "id") == ['["b","a"]']
    with pytest.raises(UniqueViolation, match=r"line 2: @unique violation on E\.\(dst, src\).*first in line 1"):
        strict(f"{edge}\n{edge}", schema)


def test_a_keyed_row_may_come_with_its_own_id() -> None:
    assert rows(strict('{"type":"Person","data":{"id":"A","name":"A"}}')["node:Person"], "id") == ["A"]


def test_ids_that_repeat_across_inputs_name_both_places() -> None:
    source = {"Note": pa.table({"id": ["a", "b"]}), "node:Note": [{"id": "c"}, {"id": "a"}]}
    with pytest.raises(
        InvalidRecord, match="Note, record 2: the id 'a' of this Note occurs twice, first in Note, row 1"
    ):
        read(source)


KEYS = """
node Keyed { a: String b: Bool c: I32 d: I64 e: U32 f: U64 g: F32 h: F64 i: Date j: DateTime k: enum(x, y) @key(%s) }
edge Link: Keyed -> Keyed { a: String h: F64 @key(src, h, dst) }
"""
members = st.fixed_dictionaries(
    {
        "a": st.text(max_size=4),
        "b": st.booleans(),
        "c": st.integers(-(2**31), 2**31 - 1),
        "d": st.integers(-(2**63), 2**63 - 1),
        "e": st.integers(0, 2**32 - 1),
        "f": st.integers(0, 2**64 - 1),
        "g": st.floats(width=32, allow_nan=False, allow_infinity=False),
        "h": st.floats(allow_nan=False, allow_infinity=False),
        "i": st.integers(-(2**31), 2**31 - 1),
        "j": st.integers(-(2**53), 2**53),
        "k": st.sampled_from(["x", "y"]),
    }
)


@given(members, st.lists(st.sampled_from("abcdefghijk"), unique=True, min_size=1, max_size=3))
@settings(max_examples=150, deadline=None)
def test_ids_of_columns_are_the_ids_of_rows(row: dict[str, Any], key: list[str]) -> None:
    schema = KEYS % ", ".join(key)
    catalog = compile_schema(schema)
    edge = {"from": row["a"], "to": row["k"], "a": "", "h": row["h"]}
    tables = read({"Keyed": [row], "Link": [edge]}, schema)
    assert rows(tables["node:Keyed"], "id") == [node_id(catalog.nodes["Keyed"], row)]
    ends = {"src": row["a"], "dst": row["k"], "h": row["h"]}
    assert rows(tables["edge:Link"], "id") == [edge_id(catalog.edges["Link"], ends)]
