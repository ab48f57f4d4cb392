"""Whatever bytes come in, out come rows or one of our errors, with a place that exists."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from load.loading import permissive, strict
from omnigraph.errors import ConstraintViolation, InvalidRecord

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = """
node P { name: String @key age: I32? at: DateTime? v: Vector(2)? tags: [String]? blob: Blob? }
node Q { x: F64? }
edge E: P -> Q { since: Date? }
"""
PARSERS = pytest.mark.parametrize("parse", [strict, permissive])

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from(["P", "Q", "E", "e", "2024-01-02", "2024-01-02T03:04:05Z", "base64:aGk="]),
)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
members = st.dictionaries(
    st.sampled_from(["id", "name", "age", "at", "v", "tags", "blob", "x", "since", "src", "_rowid", "other"]),
    json_values,
    max_size=4,
)
records = st.dictionaries(
    st.sampled_from(["type", "edge", "from", "to", "data", "id"]), st.one_of(scalars, members), max_size=5
)
likely = st.one_of(
    st.builds(lambda name, rest: {"type": "P", "data": {**rest, "name": name}}, st.text(max_size=3), members),
    st.builds(lambda x: {"type": "Q", "data": {"x": x}}, scalars),
    st.builds(lambda a, b: {"edge": "E", "from": a, "to": b}, st.text(max_size=2), st.text(max_size=2)),
)
texts = st.lists(st.one_of(records, likely, json_values), max_size=5).map(
    lambda lines: "\n".join(json.dumps(each, ensure_ascii=False) for each in lines)
)


def outcome(parse: Callable[..., Any], data: bytes) -> Any:
    try:
        return parse(data, SCHEMA)
    except (InvalidRecord, ConstraintViolation) as error:
        return error


def survives(parse: Callable[..., Any], text: str | bytes) -> None:
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    found = outcome(parse, data)
    if isinstance(found, InvalidRecord):
        assert found.line is not None
        assert 1 <= found.line <= data.count(b"\n") + 1
        assert f"line {found.line}: " in str(found)
    elif isinstance(found, ConstraintViolation):
        assert str(found).startswith("line ")
    else:
        for table in found.values():
            _with_moments_as_numbers(table).validate(full=True)
            assert not table.column("id").null_count


def _with_moments_as_numbers(table: pa.Table) -> pa.Table:
    """Arrow's own check wants whole days of a date64, which holds the time of day here."""
    for at, field in enumerate(table.schema):
        if pa.types.is_date64(field.type):
            table = table.set_column(at, field.name, table.column(at).cast(pa.int64()))
    return table


@PARSERS
@given(text=texts)
@example(text='{"type": "P", "data": {"id": null, "at": 1, "name": ""}}')
@settings(max_examples=250, deadline=None)
def test_records_of_every_shape(parse: Callable[..., Any], text: str) -> None:
    survives(parse, text)


@PARSERS
@given(text=texts, at=st.integers(0, 200), junk=st.binary(max_size=3), cut=st.integers(0, 3))
@settings(max_examples=250, deadline=None)
def test_damaged_records(parse: Callable[..., Any], text: str, at: int, junk: bytes, cut: int) -> None:
    data = text.encode("utf-8", "surrogatepass")
    survives(parse, data[:at] + junk + data[at + cut :])


@PARSERS
@given(data=st.binary(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_bytes(parse: Callable[..., Any], data: bytes) -> None:
    survives(parse, data)


@given(
    name=st.text(max_size=6),
    repeat=st.sampled_from(["name", "age", "data", "type"]),
    spaces=st.sampled_from(["", " ", "\t"]),
)
@settings(max_examples=150, deadline=None)
def test_a_repeated_member_is_always_found(name: str, repeat: str, spaces: str) -> None:
    data = {"name": name, "age": 1}
    text = json.dumps({"type": "P", "data": data}, ensure_ascii=False)
    twice = text.replace(f'"{repeat}":', f'"{repeat}"{spaces}:{spaces}null,"{repeat}":', 1)
    with pytest.raises(InvalidRecord) as caught:
        strict(twice, SCHEMA)
    assert caught.value.rule == "duplicate_member"


@given(st.lists(st.tuples(st.text(max_size=4), st.text(max_size=4)), unique_by=lambda each: each[0], max_size=5))
@settings(max_examples=150, deadline=None)
def test_no_valid_record_is_taken_for_one_with_a_repeat(pairs: list[tuple[str, str]]) -> None:
    lines = [
        json.dumps({"type": "P", "data": {"name": name, "tags": [tag]}}, ensure_ascii=False) for name, tag in pairs
    ]
    tables = strict("\n".join(lines).encode(), SCHEMA)
    assert sum(table.num_rows for table in tables.values()) == len(pairs)
