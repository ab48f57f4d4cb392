"""changes, commit changes, tag, revert, and how merges are settled from a file (surface §1.4)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from omnigraph.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cli.conftest import Ran

    Run = Callable[..., Ran]


def _head(run: Run, graph: str, *words: str) -> str:
    found = json.loads(run("commit", "list", graph, *words, "--json").out)["commits"]
    return str(found[0]["graph_commit_id"])


def _poll(run: Run, graph: str, *words: str) -> Any:
    ran = run("changes", "poll", "--uri", graph, "--json", *words)
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


def _grow(run: Run, graph: str, name: str, age: int, *words: str) -> None:
    params = json.dumps({"name": name, "age": age})
    assert run("mutate", "grow", "--query", "queries.gq", "--store", graph, "--params", params, *words).code == 0


def test_a_poll_goes_on_from_where_the_last_one_ended(run: Run, graph: str, add: Run) -> None:
    first = _poll(run, graph)
    assert (first["blocks"], first["caught_up"]) == ([], True)
    add("Ada", "--as", "act-ada")
    _grow(run, graph, "Ada", 36)

    later = _poll(run, graph, "--cursor", first["cursor"])

    inserted, updated = later["blocks"]
    assert inserted["cause"]["actor_id"] == "act-ada"
    assert inserted["cause"]["authored_branch"] == "main"
    (change,) = updated["changes"]
    assert (change["kind"], change["type"]["name"], change["id"], change["op"]) == ("node", "Person", "Ada", "update")
    assert (change["before"]["properties"]["age"], change["after"]["properties"]["age"]) == (None, 36)
    assert _poll(run, graph, "--cursor", later["cursor"])["blocks"] == []


def test_a_poll_for_people_ends_with_the_place(run: Run, graph: str, add: Run) -> None:
    add("Ada")
    _grow(run, graph, "Ada", 36)

    lines = run("changes", "poll", "--uri", graph, "--start", "beginning").out.splitlines()

    assert lines[0].startswith("commit ")
    assert lines[1] == "  insert Person Ada"
    assert "    age: null → 36" in lines
    assert lines[-1].startswith("cursor: ")


def test_a_poll_starts_anywhere_and_takes_filters_and_a_limit(run: Run, graph: str, add: Run) -> None:
    add("Ada")
    after = _head(run, graph)
    for name in ("Bo", "Cy"):
        add(name)

    def ids(*words: str) -> list[str]:
        return [each["id"] for block in _poll(run, graph, *words)["blocks"] for each in block["changes"]]

    assert ids("--start", "beginning") == ["Ada", "Bo", "Cy"]
    assert ids("--start", f"after:{after}") == ["Bo", "Cy"]
    assert ids("--start", "beginning", "--limit", "2") == ["Ada", "Bo"]
    assert not _poll(run, graph, "--start", "beginning", "--limit", "2")["caught_up"]
    assert ids("--start", "beginning", "--kind", "edge") == []
    assert ids("--start", "beginning", "--type", "Person", "--op", "insert") == ["Ada", "Bo", "Cy"]
    assert run("changes", "poll", "--uri", graph, "--start", "noon").code == 1
    assert run("changes", "poll", "--uri", graph, "--start", "now", "--cursor", "x").code == 2
    assert "error[change_cursor_rejected]" in run("changes", "poll", "--uri", graph, "--cursor", "x").err


def test_one_commit_is_told_page_by_page(run: Run, graph: str, place: Path) -> None:
    people = [json.dumps({"type": "Person", "data": {"name": name}}) for name in "abc"]
    edge = json.dumps({"edge": "Knows", "from": "a", "to": "b"})
    (place / "data.jsonl").write_text("\n".join([*people, edge]))
    run("load", graph, "--data", "data.jsonl", "--mode", "append")
    commit = _head(run, graph)

    first = json.loads(run("commit", "changes", commit, "--uri", graph, "--limit", "3", "--json").out)
    token = first["next_page_token"]
    rest = json.loads(run("commit", "changes", commit, "--uri", graph, "--page-token", token, "--json").out)

    assert [each["id"] for each in first["changes"]] == ["a", "b", "c"]
    (knows,) = rest["changes"]
    assert knows["after"]["endpoints"] == {"from": "a", "to": "b"}
    assert "next_page_token" not in rest
    assert first["cause"]["graph_commit_id"] == commit
    assert "insert Person a" in run("commit", "changes", commit, "--uri", graph).out
    assert run("commit", "changes", commit, "--uri", graph, "--page-token", "x").code == 1


def test_a_baseline_replaces_its_file_as_a_whole(run: Run, graph: str, add: Run, place: Path) -> None:
    add("Ada")
    (place / "copy.jsonl").write_text("old")

    told = json.loads(run("changes", "baseline", "--uri", graph, "--out", "copy.jsonl", "--json").out)
    add("Bo")

    assert told["baseline"]["snapshot_commit_id"] in run("commit", "list", graph).out
    assert (place / "copy.jsonl").read_text() == run(
        "export", graph, "--at", told["baseline"]["snapshot_commit_id"]
    ).out
    later = _poll(run, graph, "--cursor", told["baseline"]["resume_cursor"])
    assert [each["id"] for block in later["blocks"] for each in block["changes"]] == ["Bo"]
    assert run("changes", "baseline", "--uri", graph, "--out", "nowhere/copy.jsonl").code == 1
    for_people = run("changes", "baseline", "--uri", graph, "--out", "copy.jsonl", "--type", "Knows").out
    assert for_people.startswith("wrote copy.jsonl as of commit ")
    assert (place / "copy.jsonl").read_text() == ""
    assert sorted(each.name for each in place.glob("*copy*")) == ["copy.jsonl", "copy.jsonl.lock"]


def test_a_baseline_that_fails_keeps_the_old_file(place: Path) -> None:
    from omnigraph.cli.frame.output import replace_whole_file

    (place / "copy.jsonl").write_text("old")

    def broken() -> Any:
        yield b"half"
        raise InvalidInput("the store went away")

    with pytest.raises(InvalidInput, match="went away"):
        replace_whole_file("copy.jsonl", broken())
    assert (place / "copy.jsonl").read_text() == "old"


def test_two_do_not_write_one_file_at_once(place: Path) -> None:
    from omnigraph.cli.frame.output import replace_whole_file

    def another_comes() -> Any:
        yield b"mine"
        with pytest.raises(InvalidInput, match="another process"):
            replace_whole_file("copy.jsonl", [b"theirs"])

    replace_whole_file("copy.jsonl", another_comes())
    assert (place / "copy.jsonl").read_text() == "mine"


def test_tags_are_made_listed_read_and_deleted(run: Run, graph: str, add: Run) -> None:
    add("Ada")
    commit = _head(run, graph)
    add("Bo")

    assert run("tag", "create", "v1", "--uri", graph, "--at", commit).out == f"created tag v1 on commit {commit}\n"
    assert run("tag", "list", graph).out == f"v1 {commit}\n"
    assert run("diff", "v1", "main", "--uri", graph).out == "node:Person inserted=1 updated=0 deleted=0\n"
    query = ("query", "everybody", "--query", "queries.gq", "--store", graph, "--snapshot", "v1", "--format", "csv")
    assert run(*query).out.splitlines()[1:] == ["Ada,null"]
    assert "error[tag_exists]" in run("tag", "create", "v1", "--uri", graph).err
    assert run("tag", "delete", "v1", "--uri", graph).out == "deleted tag v1\n"
    assert run("tag", "delete", "v1", "--uri", graph).code == 1


def test_a_commit_is_reverted(run: Run, graph: str, add: Run) -> None:
    add("Ada")
    commit = _head(run, graph)
    add("Bo")

    told = run("revert", commit, "--uri", graph, "--dry-run")
    done = run("revert", commit, "--uri", graph, "--as", "act-ada")

    assert told.out == f"would revert {commit} on main: 0 entities put, 1 removed, 0 conflicts\n"
    assert done.out.startswith(f"reverted {commit} on main: 0 entities put, 1 removed, as commit ")
    assert "actor=act-ada" in run("commit", "list", graph).out.splitlines()[0]
    assert run("revert", commit, "--uri", graph).out == f"nothing of {commit} is left to revert on main\n"
    assert json.loads(run("revert", commit, "--uri", graph, "--json").out)["commit"] is None


def test_what_a_dropped_property_had_is_told_when_a_commit_is_reverted(
    run: Run, graph: str, add: Run, place: Path
) -> None:
    add("Ada")
    _grow(run, graph, "Ada", 36)
    commit, old = _head(run, graph), run("schema", "show", graph).out
    (place / "smaller.pg").write_text(old.replace("age: I32?", ""))
    run("branch", "create", "review", "--uri", graph)
    assert run("schema", "apply", graph, "--schema", "smaller.pg").code == 0

    told = run("revert", commit, "--uri", graph, "--dry-run")

    assert told.out.splitlines()[-1] == "would leave out node:Person.age of 1 row"
    assert json.loads(run("revert", commit, "--uri", graph, "--json").out)["left_out"] == {"node:Person.age": 1}
    assert '"age"' in run("export", graph, "--branch", "review").out
    assert '"age"' not in run("export", graph).out


def test_what_stands_in_the_way_of_a_revert_is_told(run: Run, graph: str, add: Run) -> None:
    add("Ada")
    _grow(run, graph, "Ada", 1)
    commit = _head(run, graph)
    _grow(run, graph, "Ada", 2)

    refused = run("revert", commit, "--uri", graph, "--json")

    assert refused.code == 1
    (conflict,) = json.loads(refused.out)["merge_conflicts"]
    assert (conflict["kind"], conflict["id"]) == ("DivergentUpdate", "Ada")
    assert run("revert", commit, "--uri", graph, "--resolve", "theirs").code == 0


def test_a_merge_is_settled_from_a_file(run: Run, graph: str, add: Run, place: Path) -> None:
    add("Ada")
    add("Bo")
    run("branch", "create", "review", "--uri", graph)
    for name in ("Ada", "Bo"):
        _grow(run, graph, name, 1)
        _grow(run, graph, name, 2, "--branch", "review")
    (place / "settled.json").write_text('{"node:Person/Ada": "theirs", "*": "ours"}')
    (place / "wrong.json").write_text('{"node:Person/Ada": "mine"}')

    merge = ("branch", "merge", "review", "--uri", graph, "--resolve-file")
    assert run(*merge, "wrong.json").code == 1
    assert run(*merge, "queries.gq").code == 1
    assert run(*merge, "settled.json").out == "merged review into main: merged\n"

    people = run("query", "everybody", "--query", "queries.gq", "--store", graph, "--format", "csv").out
    assert people.splitlines()[1:] == ["Ada,2", "Bo,1"]


def test_strict_merges_take_no_two_changes_of_one_entity(run: Run, place: Path) -> None:
    (place / "towns.pg").write_text("node Town { name: String @key  people: I32?  mayor: String? }\n")
    run("init", "--schema", "towns.pg", "towns.omni")

    def change(text: str, branch: str = "main") -> None:
        done = run("mutate", "-e", f"query q() {{ {text} }}", "--store", "towns.omni", "--branch", branch)
        assert done.code == 0, done.err

    change('insert Town { name: "Turin" }')
    run("branch", "create", "review", "--uri", "towns.omni")
    change('update Town set { people: 1 } where name = "Turin"')
    change('update Town set { mayor: "Ada" } where name = "Turin"', "review")
    refused = run("branch", "merge", "review", "--uri", "towns.omni", "--strict")
    assert refused.code == 1
    assert "DivergentUpdate" in refused.err
    assert run("branch", "merge", "review", "--uri", "towns.omni").code == 0


def test_a_merge_tells_what_becomes_of_a_schema_and_of_values_that_have_no_place_in_it(run: Run, place: Path) -> None:
    (place / "towns.pg").write_text("node Town { name: String @key  people: I32?  mayor: String? }\n")
    (place / "later.pg").write_text("node Town { name: String @key  people: I64? }\n")
    run("init", "--schema", "towns.pg", "towns.omni")
    run("mutate", "-e", 'query q() { insert Town { name: "Turin" } }', "--store", "towns.omni")
    before = _head(run, "towns.omni")
    assert run("schema", "apply", "--schema", "later.pg", "towns.omni").code == 0
    run("branch", "create", "past", "--uri", "towns.omni", "--at", before)
    text = 'query q() { insert Town { name: "Bari", mayor: "Ada" } }'
    assert run("mutate", "-e", text, "--store", "towns.omni", "--branch", "past").code == 0
    merge = ("branch", "merge", "main", "--into", "past", "--uri", "towns.omni")
    assert run(*merge, "--dry-run").out.splitlines() == [
        "schema of past: widen_property: type_kind node, type_name Town, property_name people, from I32, to I64",
        "schema of past: drop_property: type_kind node, type_name Town, property_name mayor, mode soft",
        "would leave out node:Town.mayor of 1 row",
        "would merge main into past: merged, 0 conflicts",
    ]
    told = json.loads(run(*merge, "--json").out)
    assert [each["kind"] for each in told["schema_steps"]] == ["widen_property", "drop_property"]
    assert told["left_out"] == {"node:Town.mayor": 1}
