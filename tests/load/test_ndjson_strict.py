"""The strict grammar: one record a line, and every refusal names the line."""

from __future__ import annotations

import io

import pytest

from load.loading import rows, strict
from omnigraph.errors import InvalidRecord, UniqueViolation, ValueViolation
from omnigraph.language.schema.compile import compile_schema
from omnigraph.load.graph_records import MOST_SLOTS
from omnigraph.load.ndjson import LONGEST_LINE, read_strict

ADA = '{"type":"Person","data":{"name":"Ada"}}'


def test_nodes_and_edges_become_whole_rows() -> None:
    text = """
        {"type":"Person","data":{"name":"Ada","age":36}}
        {"type":"Person","data":{"name":"Bob","city":"Rome"}}
        {"edge":"KNOWS","from":"Ada","to":"Bob","data":{"since":"1970-01-02"}}
        {"type":"Note"}
    """
    tables = strict(text)
    people = rows(tables["node:Person"], "id", "name", "age", "city")
    assert people == [("Ada", "Ada", 36, "Paris"), ("Bob", "Bob", None, "Rome")]
    assert rows(tables["edge:Knows"], "src", "dst") == [("Ada", "Bob")]
    assert tables["edge:Knows"].schema.names == ["id", "src", "dst", "since"]
    assert len(rows(tables["node:Note"], "id")[0]) == 26


def test_blank_lines_and_crlf_are_tolerated_and_counted() -> None:
    with pytest.raises(InvalidRecord) as caught:
        strict(f"\r\n{ADA}\r\n   \r\n\r\nx\r\n")
    assert caught.value.line == 5
    assert rows(strict(f"\n{ADA}\r\n\t\n")["node:Person"], "id") == ["Ada"]


@pytest.mark.parametrize("text", ["", "\n", "\r\n \r\n", "\ufeff"])
def test_an_empty_file_holds_nothing(text: str) -> None:
    assert strict(text) == {}


def test_a_byte_order_mark_is_skipped() -> None:
    assert rows(strict("\ufeff" + ADA)["node:Person"], "id") == ["Ada"]


@pytest.mark.parametrize(
    ("record", "rule", "message"),
    [
        ("[1]", "not_an_object", "expected a JSON object"),
        ("5", "not_an_object", "expected a JSON object, got 5"),
        ("null", "not_an_object", "expected a JSON object"),
        ('{"type":"Person","data":{"name":"A"}', "json", "end of data at column 37: is the file cut off"),
        ('{"type":"Person",}', "json", "not JSON"),
        (ADA + ADA, "json", "not JSON"),
        ('{"type":"Person","data":{"name":NaN}}', "json", "not JSON"),
        ('{"type":"Person","data":{"name":"\\ud800"}}', "json", "surrogate"),
        ("{}", "kind", "a record needs `type`"),
        ('{"data":{}}', "kind", "a record needs `type`"),
        ('{"type":"Person","edge":"Knows","from":"a","to":"b"}', "kind", "not both"),
        ('{"type":5}', "kind", "`type` must be a text, got 5"),
        ('{"type":null}', "kind", "`type` must be a text"),
        ('{"edge":["Knows"],"from":"a","to":"b"}', "kind", "`edge` must be a text"),
        ('{"type":"Persn"}', "unknown_type", "no node type 'Persn': did you mean 'Person'?"),
        ('{"type":"person"}', "unknown_type", "no node type 'person'"),
        ('{"type":"Knows"}', "unknown_type", "no node type 'Knows'"),
        ('{"edge":"Know","from":"a","to":"b"}', "unknown_type", "no edge type 'Know': did you mean 'Knows'?"),
        ('{"type":"Person","name":"A"}', "unknown_member", "unknown member 'name'"),
        ('{"type":"Person","id":"A","data":{"name":"A"}}', "unknown_member", "unknown member 'id'"),
        ('{"type":"Person","from":"A","data":{"name":"A"}}', "unknown_member", "unknown member 'from'"),
        ('{"edge":"Knows","from":"a","to":"b","id":"e"}', "unknown_member", "unknown member 'id'"),
        ('{"type":"Person","data":[]}', "data", "`data` must be an object"),
        ('{"type":"Person","data":null}', "data", "`data` must be an object, got None"),
        ('{"edge":"Knows","to":"b"}', "endpoint", "an edge needs `from`"),
        ('{"edge":"Knows","from":"a"}', "endpoint", "an edge needs `to`"),
        ('{"edge":"Knows","from":1,"to":"b"}', "endpoint", "`from` must be the id of a node as text, got 1"),
        ('{"edge":"Knows","from":"a","to":null}', "endpoint", "`to` must be the id"),
        ('{"type":"Person","data":{"name":"A","agee":1}}', "unknown_field", "no property 'agee': did you mean 'age'?"),
        ('{"type":"Person","data":{"name":"A","_rowid":1}}', "reserved_field", "'_rowid' is reserved"),
        ('{"type":"Person","data":{"name":"A","_tombstone":true}}', "reserved_field", "'_tombstone' is reserved"),
        ('{"edge":"Knows","from":"a","to":"b","data":{"src":"a"}}', "reserved_field", "not 'src' in `data`"),
        ('{"edge":"Knows","from":"a","to":"b","data":{"dst":"a"}}', "reserved_field", "not 'dst' in `data`"),
        ('{"type":"Person","data":{"name":"A","id":5}}', "type", "Person.id: expected String"),
        ('{"type":"Person","data":{"name":"A","id":"B"}}', "id_mismatch", "'B' of this Person does not match its key"),
        ('{"type":"Person","data":{"name":"A","age":"x"}}', "type", "Person.age: expected I32"),
        ('{"type":"Person","data":{"name":"A","age":1.5}}', "type", "Person.age: expected I32"),
        ('{"type":"Person","data":{"name":"A","age":4294967296}}', "range", "Person.age: 4294967296 is out of range"),
        ('{"type":"Person","data":{"name":"A","age":{"a":1}}}', "type", "Person.age: expected I32"),
        ('{"edge":"Knows","from":"a","to":"b","data":{"since":"soon"}}', "text", "Knows.since: 'soon' is not a date"),
    ],
)
def test_a_record_outside_the_grammar_is_refused_with_its_line(record: str, rule: str, message: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        strict(f"{ADA}\n\n{record}\n", source="people.jsonl")
    error = caught.value
    assert str(error).startswith("people.jsonl, line 3: ")
    assert message in str(error)
    assert (error.rule, error.line, error.source, error.row) == (rule, 3, "people.jsonl", None)


@pytest.mark.parametrize(
    "record",
    [
        '{"type":"Person","type":"Person","data":{"name":"A"}}',
        '{"type":"Person","data":{"name":"A"},"data":{"name":"B"}}',
        '{"type":"Person","data":{"name":"A","name":"A"}}',
        '{"type":"Person","data":{"name":"A","na\\u006de":"B"}}',
        '{"type":"Person","data":{"name":"a:b","age":1,"age":2}}',
        '{"type":"Person","data":{"name":"\\u003a\\u003a","age":1,"age":2}}',
        '{"type":"Person","data":{"name":"A","city":"x","city":"y:z"}}',
        '{"type":"Person","data":{"name":"A","age":{"x":{"y":1,"y":2}}}}',
        '{"type":"Person","data":{"name":"A","age":[{"y":1,"y":2}]}}',
        '{"edge":"Knows","from":"a","from":"b","to":"c"}',
        '{"type":"Person","data":{"name":"A","age":1' + "0" * 300 + ',"age":2}}',
    ],
)
def test_a_member_that_stands_twice_at_any_depth_is_refused(record: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        strict(f"{ADA}\n{record}")
    assert (caught.value.line, caught.value.rule) == (2, "duplicate_member")


@pytest.mark.parametrize("name", ["a:b", "::", '\\u003a\\":\\"', "\\\\", 'quo\\"te:', "{[,:]}"])
def test_colons_and_escapes_inside_of_texts_are_not_mistaken_for_members(name: str) -> None:
    (row,) = rows(strict(f'{{"type":"Person","data":{{"name":"{name}","city":":"}}}}')["node:Person"], "city")
    assert row == ":"


def test_the_same_name_in_two_objects_is_no_repeat() -> None:
    with pytest.raises(InvalidRecord, match="expected I32"):
        strict('{"type":"Person","data":{"name":"A","age":{"name":1}}}')


def test_null_items_in_lists_are_refused() -> None:
    with pytest.raises(InvalidRecord, match=r"line 1: T\.tags: a list cannot hold null \(item 2\)"):
        strict('{"type":"T","data":{"tags":["a",null]}}', "node T { tags: [String] }")


def test_a_required_property_must_be_there() -> None:
    with pytest.raises(ValueViolation, match=r"line 2: required property Person\.name has no value") as caught:
        strict(f'{ADA}\n{{"type":"Person"}}')
    assert (caught.value.rule, caught.value.type_name, caught.value.property_name) == ("required", "Person", "name")


def test_a_value_outside_of_an_enum_names_the_line_and_what_is_allowed() -> None:
    schema = "node T { role: enum(admin, user) }"
    with pytest.raises(ValueViolation, match=r"line 2: invalid enum value 'x' for T\.role \(expected: admin, user\)"):
        strict('{"type":"T","data":{"role":"user"}}\n{"type":"T","data":{"role":"x"}}', schema)


def test_a_missing_member_takes_the_default_and_an_explicit_null_does_not() -> None:
    with pytest.raises(ValueViolation, match=r"Person\.city has no value"):
        strict('{"type":"Person","data":{"name":"A","city":null}}')
    schema = "node T { n: I32? @default(7) }"
    text = '{"type":"T","data":{"n":null}}\n{"type":"T"}\n{"type":"T","data":{"n":1}}'
    assert rows(strict(text, schema)["node:T"], "n") == [None, 7, 1]


def test_a_key_that_stands_twice_names_both_lines() -> None:
    with pytest.raises(UniqueViolation, match=r"line 3: @unique violation on Person\.name.*first in line 1") as caught:
        strict(f"{ADA}\n\n{ADA}")
    assert caught.value.row_id == "Ada"


def test_an_explicit_id_that_stands_twice_names_both_lines() -> None:
    note = '{"type":"Note","data":{"id":"n"}}'
    with pytest.raises(InvalidRecord, match=r"line 2: the id 'n' of this Note occurs twice, first in line 1"):
        strict(f"{note}\n{note}")


def test_latin_1_is_refused_with_the_byte_and_the_column() -> None:
    with pytest.raises(InvalidRecord, match=r"line 2: byte 0xE9 at column 34 is not UTF-8") as caught:
        strict(f"{ADA}\n".encode() + '{"type":"Person","data":{"name":"é"}}'.encode("latin-1"))
    assert caught.value.rule == "encoding"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_utf_16_is_refused(encoding: str) -> None:
    with pytest.raises(InvalidRecord, match="line 1: this is UTF-16 or UTF-32 text: save it as UTF-8"):
        strict(ADA.encode(encoding))


def test_a_line_may_be_as_long_as_the_cap_and_no_longer() -> None:
    def line(length: int) -> bytes:
        head, tail = b'{"type":"Note","data":{"text":"', b'"}}'
        return head + b"x" * (length - len(head) - len(tail)) + tail

    assert strict(line(LONGEST_LINE))["node:Note"].num_rows == 1
    for text in (line(LONGEST_LINE + 1), line(LONGEST_LINE + 1) + b"\n"):
        with pytest.raises(InvalidRecord, match=r"line 2: the line is longer than 33554432 bytes"):
            strict(f"{ADA}\n".encode() + text)


def test_the_structure_of_a_record_is_bounded_and_texts_do_not_count() -> None:
    def vector(numbers: int) -> str:
        return f'{{"type":"T","data":{{"n":[{",".join(["1"] * numbers)}]}}}}'

    schema = "node T { n: [I64]? s: String? }"
    # Besides the commas between the numbers: 1 to begin with, 4 braces, 2 brackets, 3 colons, 1 comma of the record.
    most = MOST_SLOTS - 11 + 1
    assert strict(vector(most), schema)["node:T"].num_rows == 1
    with pytest.raises(InvalidRecord, match="more than 131072 structural characters"):
        strict(vector(most + 1), schema)
    text = '{"type":"T","data":{"s":"' + ",:[]{}" * MOST_SLOTS + '\\""}}'
    assert strict(text, schema)["node:T"].num_rows == 1


def test_deep_nesting_is_refused_and_not_a_crash() -> None:
    with pytest.raises(InvalidRecord, match="line 1"):
        strict('{"type":"T","data":{"n":' + "[" * 60_000 + "]" * 60_000 + "}}", "node T { n: [I64]? }")


def test_a_part_of_a_file_is_numbered_from_its_first_line() -> None:
    with pytest.raises(InvalidRecord) as caught:
        list(read_strict(io.BytesIO(b"{}"), compile_schema(""), first_line=1_234_567))
    assert caught.value.line == 1_234_567


def test_a_wrong_type_deep_in_a_large_file_names_its_line() -> None:
    lines = [f'{{"type":"Note","data":{{"text":"{number}"}}}}' for number in range(40_000)]
    lines[34_566] = '{"type":"Note","data":{"text":7}}'
    with pytest.raises(InvalidRecord, match=r"line 34567: Note\.text: expected String\?, got 7"):
        strict("\n".join(lines))
