"""Equal keys are one row: every value of a key has one text."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.catalog.catalog import PropertyType
from omnigraph.catalog.key_ids import canonical_text, edge_id, node_id
from omnigraph.errors import ConstraintViolation
from omnigraph.language.schema.compile import compile_schema


@pytest.mark.parametrize(
    ("scalar", "value", "text"),
    [
        ("String", 'quo"te', 'quo"te'),
        ("String", "", ""),
        ("I32", -5, "-5"),
        ("U64", 2**64 - 1, "18446744073709551615"),
        ("Bool", True, "true"),
        ("Bool", False, "false"),
        ("Date", date(1970, 1, 2), "1"),
        ("Date", date(1969, 12, 31), "-1"),
        ("Date", 20_000, "20000"),
        ("DateTime", datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC), "1500"),
        ("DateTime", datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), "0"),
        ("DateTime", 1_500, "1500"),
        ("F64", 1.0, "1"),
        ("F64", -0.0, "0"),
        ("F64", 0.1, "0.1"),
        ("F64", 1e21, "1000000000000000000000"),
        ("F64", 1.5e-7, "0.00000015"),
        ("F32", 0.1, "0.1"),
        ("F32", 16777217.0, "16777216"),
        ("F32", 3, "3"),
    ],
)
def test_canonical_texts(scalar: str, value: object, text: str) -> None:
    assert canonical_text(PropertyType(scalar), value) == text  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("String", None),
        ("String", 5),
        ("I32", 2**31),
        ("I32", 1.0),
        ("I32", True),
        ("U32", -1),
        ("F64", float("nan")),
        ("F64", float("inf")),
        ("F32", 1e39),
        ("F64", True),
        ("Date", datetime(2026, 1, 1, tzinfo=UTC)),
        ("Bool", 1),
    ],
)
def test_values_that_no_key_can_have(scalar: str, value: object) -> None:
    with pytest.raises(ValueError):
        canonical_text(PropertyType(scalar), value)  # type: ignore[arg-type]


def test_one_column_is_its_own_text_and_several_are_an_array_in_name_order() -> None:
    nodes = compile_schema("node A { n: I64 @key } node B { org: String code: I64 @key(org, code) } node C {}").nodes
    assert node_id(nodes["A"], {"n": 7}) == "7"
    assert node_id(nodes["B"], {"org": 'a"b\n', "code": 7}) == '["7","a\\"b\\n"]'
    assert node_id(nodes["B"], {"org": "é", "code": 7}) == '["7","é"]'
    assert node_id(nodes["C"], {}) is None


def test_an_edge_with_a_key_is_made_of_its_ends() -> None:
    source = "node A {} edge Plain: A -> A edge Keyed: A -> A { on: Date @key(src, dst, on) }"
    edges = compile_schema(source).edges
    assert edge_id(edges["Plain"], {"src": "a", "dst": "b"}) is None
    assert edge_id(edges["Keyed"], {"src": "a", "dst": "b", "on": date(1970, 1, 2)}) == '["b","1","a"]'


def test_a_missing_key_value_names_the_type_and_the_property() -> None:
    node = compile_schema("node A { n: I64 @key }").nodes["A"]
    with pytest.raises(ConstraintViolation, match=r"A\.n is part of the key: a value is missing") as caught:
        node_id(node, {})
    assert (caught.value.type_name, caught.value.property_name) == ("A", "n")


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_the_text_of_a_narrow_float_reads_back_and_is_not_longer_than_the_wide_one(value: float) -> None:
    text = canonical_text(PropertyType("F32"), value)
    assert struct.pack("<f", float(text)) == struct.pack("<f", value + 0.0)
    assert "e" not in text
    assert len(text) <= len(canonical_text(PropertyType("F64"), value))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_text_of_a_float_reads_back(value: float) -> None:
    assert float(canonical_text(PropertyType("F64"), value)) == value


@given(st.lists(st.text(), min_size=2, max_size=2), st.lists(st.text(), min_size=2, max_size=2))
def test_different_keys_have_different_ids(one: list[str], other: list[str]) -> None:
    node = compile_schema("node B { x: String y: String @key(x, y) }").nodes["B"]
    ids = [node_id(node, dict(zip("xy", values, strict=True))) for values in (one, other)]
    assert (ids[0] == ids[1]) == (one == other)


@pytest.mark.parametrize("ends", ["src, dst", "from, to", "@src, @dst", "to, @src"])
def test_the_endpoints_in_an_edge_key_have_three_spellings_and_one_meaning(ends: str) -> None:
    texts = [
        f"node P {{ name: String @key }} edge K: P -> P {{ n: I32  @key({each}, n) }}" for each in ("src, dst", ends)
    ]
    first, second = (compile_schema(each) for each in texts)
    assert second.edges["K"].rules == first.edges["K"].rules
    assert second.edges["K"].rules.key == ("dst", "n", "src")


def test_a_property_that_is_called_from_is_not_an_endpoint() -> None:
    (edge,) = compile_schema("node P { n: I32 } edge K: P -> P { from: I32  @unique(from) }").edges.values()
    assert edge.rules.unique == (("from",),)
