"""Merges between states of different schemas, in every direction: the later one wins, and nothing is lost silently."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest

import omnigraph as og
from crash.workloads import unsettled
from omnigraph import errors
from omnigraph.catalog.arrow import table_arrow_schemas

if TYPE_CHECKING:
    from pathlib import Path

PERSON = "node Person { name: String @key  age: I32?  nick: String?  mood: enum(calm, glad)? }"
CITY = "node City { name: String @key }"
LIVES = "edge LivesIn: Person -> City { since: I32?  @key(src, dst) }"
SCHEMA = f"{PERSON}\n{CITY}\n{LIVES}"
Rows = dict[str, dict[str, Any]]


def do(graph: og.Graph, statement: str, branch: str = "main") -> None:
    graph.mutate(f"query q() {{ {statement} }}", branch=branch)


def rows(graph: og.Graph, table_key: str, branch: str = "main") -> Rows:
    """The rows of a table by id, read with the schema that the branch says it is in."""
    snapshot = graph.snapshot(branch=branch)
    wanted = table_arrow_schemas(graph._schemas.of(snapshot.schema).catalog)
    assert wanted.keys() == snapshot.tables.keys()
    table = graph._manifest.stores.tables.open(snapshot[table_key].pin)
    assert table.schema.names == wanted[table_key].names
    return {row.pop("id"): row for row in table.read().to_pylist()}


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    people = [{"name": name, "age": 30, "nick": name[0], "mood": "calm"} for name in ("ada", "bo", "cy")]
    graph.load({"Person": people, "City": [{"name": "Rome"}]})
    return graph


def behind(graph: og.Graph, *schemas: str) -> str:
    """Main goes on to other schemas. `past` and `idle` begin before that; `past` has changes of its own."""
    before = graph.commits()[0].id
    for each in schemas:
        graph.apply_schema(each)
    for name in ("idle", "past"):
        graph.branches.create(name, from_=before)
    do(graph, 'update Person set { age: 31 } where name = "ada"', "past")
    do(graph, 'insert Person { name: "dan", age: 50, nick: "d" } insert LivesIn { from: "dan", to: "Rome" }', "past")
    do(graph, 'delete Person where name = "cy"', "past")
    return before


# What is done to the schema, the type and the properties that people then have; each with what dan gets.
KINDS: dict[str, tuple[tuple[str, ...], str, dict[str, Any]]] = {
    "a property is added": (
        (SCHEMA.replace("nick: String?", "nick: String?  x: I32?"),),
        "Person",
        {"age": 50, "mood": None, "name": "dan", "nick": "d", "x": None},
    ),
    "a property is added with a default": (
        (SCHEMA.replace("nick: String?", 'nick: String?  state: String @default("new")'),),
        "Person",
        {"age": 50, "mood": None, "name": "dan", "nick": "d", "state": "new"},
    ),
    "a property is renamed": (
        (SCHEMA.replace("nick: String?", 'alias: String? @rename_from("nick")'),),
        "Person",
        {"age": 50, "alias": "d", "mood": None, "name": "dan"},
    ),
    "a property is widened": (
        (SCHEMA.replace("age: I32?", "age: I64?"),),
        "Person",
        {"age": 50, "mood": None, "name": "dan", "nick": "d"},
    ),
    "a property is dropped": (
        (SCHEMA.replace("  nick: String?", ""),),
        "Person",
        {"age": 50, "mood": None, "name": "dan"},
    ),
    "a type is added": (
        (f"{SCHEMA}\nnode Tag {{ label: String @key }}",),
        "Person",
        {"age": 50, "mood": None, "name": "dan", "nick": "d"},
    ),
    "a type is renamed": (
        (SCHEMA.replace("node Person", 'node Human @rename_from("Person")').replace("Person ->", "Human ->"),),
        "Human",
        {"age": 50, "mood": None, "name": "dan", "nick": "d"},
    ),
    "rules and an index are added, and an enum is longer": (
        (SCHEMA.replace("nick: String?", "nick: String? @index").replace("calm, glad)?", "calm, glad, sad)? "),),
        "Person",
        {"age": 50, "mood": None, "name": "dan", "nick": "d"},
    ),
    "several changes follow each other": (
        (
            SCHEMA.replace("age: I32?", 'years: I64? @rename_from("age")'),
            SCHEMA.replace("age: I32?", "years: I64?").replace("  nick: String?", "  size: F64 @default(1.5)"),
            SCHEMA.replace("age: I32?", 'old: I64? @rename_from("years")')
            .replace("  nick: String?", "  size: F64 @default(2.5)")
            .replace("node Person", 'node Human @rename_from("Person")')
            .replace("Person ->", "Human ->"),
        ),
        "Human",
        {"mood": None, "name": "dan", "old": 50, "size": 1.5},
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_later_schema_wins_in_every_direction(graph: og.Graph, kind: str) -> None:
    schemas, type_name, dan = KINDS[kind]
    behind(graph, *schemas)
    key = f"node:{type_name}"
    do(graph, f'insert {type_name} {{ name: "eve" }}')
    graph.branches.create("present")
    do(graph, f'insert {type_name} {{ name: "fay" }}', "present")

    ahead = graph.merge("main", into="idle")
    assert (ahead.kind, bool(ahead.schema_steps)) == ("fast_forward", True)
    assert rows(graph, key, "idle") == rows(graph, key)

    graph.merge("present", into="past")
    assert rows(graph, key, "past").keys() == {"ada", "bo", "dan", "eve", "fay"}
    assert rows(graph, key, "past")["dan"] == dan
    assert rows(graph, "edge:LivesIn", "past").keys() == {'["Rome","dan"]'}
    assert graph.snapshot(branch="past").schema == graph.snapshot().schema

    back = graph.merge("past")
    assert back.schema_steps == ()
    assert rows(graph, key) == rows(graph, key, "past")
    assert graph.merge("past").kind == "already_up_to_date"
    graph.branches.delete("present")
    assert unsettled(graph) == []


def test_a_branch_that_wrote_nothing_points_at_what_main_has(graph: og.Graph) -> None:
    schema = SCHEMA.replace("node Person", 'node Human @rename_from("Person")').replace("Person ->", "Human ->")
    behind(graph, f"{schema}\nnode Tag {{ label: String @key }}")
    do(graph, 'insert Human { name: "eve" }')
    merged = graph.merge("main", into="idle")
    assert merged.adopted == ("node:Human", "node:Tag")
    assert graph.snapshot(branch="idle").tables == graph.snapshot().tables
    for name in ("hal", "joe"):
        do(graph, f'insert Human {{ name: "{name}" }}')
    graph.cleanup(keep=1, grace=dt.timedelta(0))
    assert rows(graph, "node:Human", "idle").keys() == {"ada", "bo", "cy", "eve"}
    do(graph, 'insert Human { name: "guy" }', "idle")
    assert graph.snapshot(branch="idle")["node:Human"].branch == "idle"
    assert "guy" not in rows(graph, "node:Human")


def test_a_branch_keeps_its_earlier_states_in_their_shape(graph: og.Graph) -> None:
    behind(graph, SCHEMA.replace("age: I32?", 'years: I64? @rename_from("age")'))
    earlier = graph.commits(branch="past")[0].id
    graph.merge("main", into="past")
    query = "query q() { match { $p: Person } return { $p.name, $p.age } order { $p.name } }"
    old = graph.query(query, at=earlier).to_pylist()
    assert old == [{"p.name": "ada", "p.age": 31}, {"p.name": "bo", "p.age": 30}, {"p.name": "dan", "p.age": 50}]
    change = graph.commits(branch="past")[0].schema
    assert change is not None
    assert change.after == graph.snapshot().schema


def test_values_of_a_dropped_property_are_counted_before_they_are_left_out(graph: og.Graph) -> None:
    behind(graph, SCHEMA.replace("  nick: String?", ""))
    do(graph, 'update Person set { nick: "B" } where name = "bo"', "past")
    for source, target in (("past", "main"), ("main", "past")):
        preview = graph.merge(source, into=target, dry_run=True)
        assert preview.left_out == {"node:Person.nick": 2}
    told = [str(each) for each in graph.merge("main", into="past").schema_steps]
    assert told == ["drop_property: type_kind node, type_name Person, property_name nick, mode soft"]


def test_changed_rows_of_a_dropped_type_are_refused_in_both_directions(graph: og.Graph) -> None:
    behind(graph, PERSON)
    graph.merge("main", into="idle")
    assert graph.snapshot(branch="idle").tables.keys() == {"node:Person"}
    for source, target in (("past", "main"), ("main", "past")):
        with pytest.raises(errors.CommitRejected, match="'past' has changed rows of edge:LivesIn, and 'main' has drop"):
            graph.merge(source, into=target)
    assert graph.snapshot(branch="past").tables.keys() == {"node:Person", "node:City", "edge:LivesIn"}


def test_a_branch_takes_a_type_that_was_dropped_and_came_back_unless_it_has_had_its_own(graph: og.Graph) -> None:
    before = graph.commits()[0].id
    graph.apply_schema(PERSON)
    middle = graph.commits()[0].id
    graph.apply_schema(SCHEMA)
    do(graph, 'insert City { name: "Bonn" }')
    for name, commit in (("between", middle), ("step", middle), ("own", before)):
        graph.branches.create(name, from_=commit)
    do(graph, 'insert City { name: "Oslo" }', "own")
    do(graph, 'delete City where name = "Oslo"', "own")
    earlier = graph.commits(branch="own")[1].id
    graph.merge("step", into="own")
    graph.merge("main", into="between")
    assert rows(graph, "node:City", "between").keys() == {"Bonn"}
    with pytest.raises(errors.CommitRejected, match="has had a table node:City of its own before"):
        graph.merge("main", into="own")
    found = graph.query("query q() { match { $c: City } return { $c.name } }", at=earlier).to_pylist()
    assert {each["c.name"] for each in found} == {"Oslo", "Rome"}


def test_a_branch_that_had_its_own_of_a_type_reads_one_that_came_back(graph: og.Graph) -> None:
    """It follows main; a line of its own would be made where the rows of its earlier states lie."""
    before = graph.commits()[0].id
    graph.apply_schema(PERSON)
    graph.branches.create("own", from_=before)
    do(graph, 'insert City { name: "Oslo" }', "own")
    do(graph, 'delete City where name = "Oslo"', "own")
    graph.merge("main", into="own")
    graph.apply_schema(SCHEMA)
    assert rows(graph, "node:City", "own") == {}
    with pytest.raises(errors.CommitRejected, match="Make a new branch of it, and write to that"):
        do(graph, 'insert City { name: "Bonn" }', "own")
    graph.branches.create("new", from_="own")
    do(graph, 'insert City { name: "Bonn" }', "new")
    assert rows(graph, "node:City", "new").keys() == {"Bonn"}
    assert unsettled(graph) == []


def test_rows_of_the_branch_must_keep_the_rules_of_the_later_schema(graph: og.Graph) -> None:
    lives = "edge LivesIn: Person -> City @card(0..1) { since: I32?  @key(src, dst) }"
    behind(graph, SCHEMA.replace("?  nick", "?  x: I32?  @range(age, 0..40)  nick").replace(LIVES, lives))
    do(graph, 'insert City { name: "Oslo" } insert LivesIn { from: "dan", to: "Oslo" }', "past")
    preview = graph.merge("main", into="past", dry_run=True)
    assert {(each.kind, each.row_id) for each in preview.conflicts} == {
        ("ValueConstraintViolation", "dan"),
        ("CardinalityViolation", "dan"),
    }
    with pytest.raises(errors.MergeConflicts):
        graph.merge("main", into="past", resolve="ours")
    do(graph, 'update Person set { age: 40 } where name = "dan"', "past")
    do(graph, 'delete LivesIn where to = "Rome"', "past")
    graph.merge("main", into="past")
    assert rows(graph, "node:Person", "past")["dan"]["age"] == 40


def test_both_sides_changed_one_property_that_was_renamed(graph: og.Graph) -> None:
    behind(graph, SCHEMA.replace("age: I32?", 'years: I64? @rename_from("age")'))
    do(graph, 'update Person set { years: 99 } where name = "ada"')
    do(graph, 'update Person set { nick: "C" } where name = "cy"')
    with pytest.raises(errors.MergeConflicts) as refusal:
        graph.merge("main", into="past")
    told = {(each.kind, each.row_id, each.properties) for each in refusal.value.conflicts}
    assert told == {("DivergentUpdate", "ada", ("years",)), ("DeleteVsUpdate", "cy", ())}
    assert "node:Person" in graph.snapshot(branch="past").tables
    assert "age" in rows(graph, "node:Person", "past")["ada"]
    graph.merge("main", into="past", resolve={"node:Person/ada": "ours", "*": "theirs"})
    found = rows(graph, "node:Person", "past")
    assert (found["ada"]["years"], found["cy"]["nick"]) == (31, "C")


def test_three_schemas_meet(graph: og.Graph) -> None:
    """Of a branch, main, and the state that they began with, none has the schema of another."""
    second = SCHEMA.replace("age: I32?", 'years: I64? @rename_from("age")')
    third = second.replace("  nick: String?", "  size: I32?")
    before = graph.commits()[0].id
    graph.apply_schema(second)
    middle = graph.commits()[0].id
    graph.apply_schema(third.replace(' @rename_from("age")', ""))
    for name, commit in (("first", before), ("second", middle)):
        graph.branches.create(name, from_=commit)
    do(graph, 'insert Person { name: "one", age: 1 }', "first")
    do(graph, 'insert Person { name: "two", years: 2 }', "second")
    graph.merge("second", into="first")
    assert rows(graph, "node:Person", "first")["one"] == {"mood": None, "name": "one", "nick": None, "years": 1}
    do(graph, 'update Person set { years: 11, nick: "x" } where name = "one"', "first")
    do(graph, 'insert Person { name: "three", size: 3 }')
    assert graph.merge("first").left_out == {"node:Person.nick": 1}
    expected = {"one": (11, None), "two": (2, None), "three": (None, 3)}
    found = rows(graph, "node:Person")
    assert {name: (found[name]["years"], found[name]["size"]) for name in expected} == expected


@pytest.mark.parametrize("cleaned", [False, True])
def test_what_main_did_between_its_changes_of_schema_comes_along(graph: og.Graph, cleaned: bool) -> None:
    """Also when a cleanup has taken those states, and nothing but both ends is left to compare."""
    before = graph.commits()[0].id
    graph.apply_schema(SCHEMA.replace("age: I32?", 'years: I64? @rename_from("age")'))
    do(graph, 'insert Person { name: "eve", years: 1 }')
    do(graph, 'update Person set { years: 40 } where name = "bo"')
    do(graph, 'delete Person where name = "cy"')
    graph.apply_schema(SCHEMA.replace("age: I32?", "years: I64?").replace("  nick: String?", ""))
    do(graph, 'update Person set { years: 2 } where name = "eve"')
    do(graph, 'update Person set { years: 30 } where name = "bo"')
    graph.branches.create("past", from_=before)
    do(graph, 'update Person set { age: 31 } where name = "bo"', "past")
    if cleaned:
        graph.cleanup(keep=1, grace=dt.timedelta(0))
    graph.merge("past")
    assert {name: row["years"] for name, row in rows(graph, "node:Person").items()} == {"ada": 30, "bo": 31, "eve": 2}
    graph.merge("main", into="past")
    assert rows(graph, "node:Person", "past") == rows(graph, "node:Person")


def test_main_goes_back_to_an_earlier_schema(graph: og.Graph) -> None:
    """The earlier one is the later one then: what was dropped in between stays dropped."""
    graph.apply_schema(SCHEMA.replace("  nick: String?", ""))
    middle = graph.commits()[0].id
    graph.apply_schema(SCHEMA)
    graph.branches.create("middle", from_=middle)
    do(graph, 'insert Person { name: "dan", age: 50 }', "middle")
    do(graph, 'update Person set { nick: "A" } where name = "ada"')
    assert [each.kind for each in graph.merge("main", into="middle").schema_steps] == ["add_property"]
    found = {name: row["nick"] for name, row in rows(graph, "node:Person", "middle").items()}
    assert found == {"ada": "A", "bo": None, "cy": None, "dan": None}
    graph.merge("middle")
    assert rows(graph, "node:Person") == rows(graph, "node:Person", "middle")


def test_common_states_of_different_schemas_are_put_together(graph: og.Graph) -> None:
    """Two branches have merged each other before, and main after it had changed the schema."""
    behind(graph, SCHEMA.replace("age: I32?", 'years: I64? @rename_from("age")'))
    do(graph, 'insert Person { name: "ivy", age: 7 }', "idle")
    graph.merge("idle", into="past")
    do(graph, 'insert Person { name: "eve", years: 5 }')
    for name in ("past", "idle"):
        graph.merge("main", into=name)
    do(graph, 'delete Person where name = "ivy"', "past")
    do(graph, 'update Person set { years: 6 } where name = "eve"', "idle")
    graph.merge("past", into="idle")
    found = {name: row["years"] for name, row in rows(graph, "node:Person", "idle").items()}
    assert found == {"ada": 31, "bo": 30, "dan": 50, "eve": 6}


def test_blobs_come_along(tmp_path: Path) -> None:
    schema = "node Doc { name: String @key  body: Blob?  size: I32? }"
    graph = og.init(tmp_path / "g", schema=schema)
    graph.load({"Doc": [{"name": "a", "body": b"one"}, {"name": "b", "body": b"two"}]})
    before = graph.commits()[0].id
    graph.apply_schema(schema.replace("size: I32?", 'length: I64? @rename_from("size")'))
    graph.branches.create("past", from_=before)
    graph.load({"Doc": [{"name": "c", "body": b"three", "size": 5}]}, branch="past")
    graph.load({"Doc": [{"name": "a", "body": b"uno", "length": 3}]})
    graph.merge("main", into="past")
    assert {name: graph.blob("Doc", name, "body", branch="past").read() for name in "abc"} == {
        "a": b"uno",
        "b": b"two",
        "c": b"three",
    }


def test_a_schema_that_changes_while_a_merge_is_prepared_is_taken_into_account(graph: og.Graph) -> None:
    behind(graph, SCHEMA.replace("nick: String?", "nick: String?  x: I32?"))
    do(graph, 'update Person set { age: 1 } where name = "bo"')
    other = og.open(graph.uri)
    asked = []

    def resolve(conflict: object) -> str:
        if not asked:
            other.merge("main", into="past", resolve="theirs")
        asked.append(conflict)
        return "theirs"

    do(graph, 'update Person set { age: 2 } where name = "bo"', "past")
    graph.merge("main", into="past", resolve=resolve)
    assert rows(graph, "node:Person", "past")["bo"] == {"age": 1, "mood": "calm", "name": "bo", "nick": "b", "x": None}
    assert unsettled(graph) == []
