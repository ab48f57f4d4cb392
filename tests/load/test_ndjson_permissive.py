"""The permissive grammar: what old releases wrote, and people by hand, with ids rewritten to what they are now."""

from __future__ import annotations

import pytest

from load.loading import permissive, rows
from omnigraph.errors import InvalidRecord, ValueViolation


def test_values_may_span_lines_share_lines_and_hold_more_than_is_known() -> None:
    text = """
    {
      "type": "Person", "note": {"deep": [1, {"x": "}"}]},
      "data": { "name": "Ada \\"{\\"", "hobby": "chess" }
    }
    {"type":"Person","data":{"name":"Bob"}} {"edge":"knows","from":"Bob","to":"Bob","data":{"src":"x"}}
    """
    tables = permissive(text)
    assert rows(tables["node:Person"], "id") == ['Ada "{"', "Bob"]
    assert rows(tables["edge:Knows"], "src", "dst") == [("Bob", "Bob")]


def test_a_scalar_of_another_type_is_null_unless_it_is_required() -> None:
    assert rows(permissive('{"type":"Person","data":{"name":"A","age":"x"}}')["node:Person"], "age") == [None]
    message = r"line 1: required property Person\.name has no value: expected String, got 5"
    with pytest.raises(ValueViolation, match=message):
        permissive('{"type":"Person","data":{"name":5}}')


def test_the_last_of_two_equal_members_counts() -> None:
    assert rows(permissive('{"type":"Person","data":{"name":"A","name":"B"}}')["node:Person"], "id") == ["B"]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('{"type":"Person",\n"data":{"name":"A"}', 2, "not JSON"),
        ("\n\n5", 3, "expected a JSON object, got 5"),
        ("[]", 1, "expected a JSON object"),
        ('{"type":"Persn"}', 1, "no node type 'Persn'"),
        ("{}", 1, "needs `type`"),
        ('\n{"type":"Person","data":{"name":NaN}}', 2, "NaN is not a number"),
        ('{"edge":"Knows","from":1,"to":"x"}', 1, "`from` must be the id"),
        ("}", 1, "not JSON"),
        ('{"type":"Person","data":{"name":"A","age":99999999999}}', 1, "out of range"),
    ],
)
def test_what_is_no_record_is_refused_with_the_line_it_ends_on(text: str, line: int, message: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        permissive(text)
    assert message in str(caught.value)
    assert caught.value.line == line


def test_latin_1_is_refused() -> None:
    with pytest.raises(InvalidRecord, match="byte 0xE9 is not UTF-8"):
        permissive('{"type":"Person","data":{"name":"é"}}'.encode("latin-1"))


OLD = """
node Day { on: Date @key }
node At { at: DateTime @key }
node Size { cm: F64 @key }
node Code { code: String org: String @key(code, org) }
edge Next: Day -> Day
edge Seen: Day -> At
edge Same: Code -> Code { @key(src, dst) }
"""


def test_old_spellings_of_ids_become_canonical_and_edges_follow() -> None:
    text = """
    {"edge":"Next","from":"1970-01-02","to":"1970-01-03"}
    {"edge":"Seen","from":"1970-01-02","to":"1970-01-01T01:00:00+01:00"}
    {"type":"Day","data":{"id":"1970-01-02","on":"1970-01-02"}}
    {"type":"Day","data":{"id":"1970-01-03","on":2}}
    {"type":"At","data":{"id":"1970-01-01T01:00:00+01:00","at":"1970-01-01T00:00:00Z"}}
    {"type":"Size","data":{"id":"1.50","cm":1.5}}
    {"type":"Code","data":{"id":"a","code":"a","org":"x"}}
    {"edge":"Same","from":"a","to":"a"}
    """
    tables = permissive(text, OLD)
    assert rows(tables["node:Day"], "id") == ["1", "2"]
    assert rows(tables["edge:Next"], "src", "dst") == [("1", "2")]
    assert rows(tables["edge:Seen"], "src", "dst") == [("1", "0")]
    assert rows(tables["node:Size"], "id") == ["1.5"]
    assert rows(tables["edge:Same"], "src", "id") == [('["a","x"]', '["[\\"a\\",\\"x\\"]","[\\"a\\",\\"x\\"]"]')]


def test_old_ids_are_rewritten_for_their_own_type_only() -> None:
    text = """
    {"type":"Day","data":{"id":"1970-01-02","on":1}}
    {"type":"At","data":{"at":5}}
    {"edge":"Seen","from":"1970-01-02","to":"1970-01-02"}
    """
    assert rows(permissive(text, OLD)["edge:Seen"], "src", "dst") == [("1", "1970-01-02")]


def test_an_id_that_is_no_spelling_of_the_key_is_refused() -> None:
    with pytest.raises(
        InvalidRecord, match="line 1: the id '1970-01-05' of this Day is no spelling of its key"
    ) as caught:
        permissive('{"type":"Day","data":{"id":"1970-01-05","on":1}}', OLD)
    assert caught.value.rule == "id_mismatch"


def test_one_old_id_for_two_nodes_is_refused() -> None:
    text = (
        '{"type":"Code","data":{"id":"a","code":"a","org":"x"}}\n{"type":"Code","data":{"id":"a","code":"a","org":"y"}}'
    )
    with pytest.raises(InvalidRecord, match="line 2: the id 'a' stands for two Codes") as caught:
        permissive(text, OLD)
    assert caught.value.rule == "id_ambiguous"


def test_an_old_id_that_is_the_id_of_another_node_is_refused() -> None:
    schema = "node T { a: String b: I64 @key(a, b) }"
    first = '{"type":"T","data":{"id":"[\\"x\\",\\"1\\"]","a":"[\\"x\\",\\"1\\"]","b":2}}'
    with pytest.raises(InvalidRecord, match=r"line 2: .* also an old spelling of another one's"):
        permissive(first + '\n{"type":"T","data":{"a":"x","b":1}}', schema)
