"""load, ingest and export (surface §1.4), on a disk and in a bucket."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from pyarrow import parquet

import omnigraph as og

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cli.conftest import Ran

    Run = Callable[..., Ran]

RECORDS = """\
{"type":"Person","data":{"name":"Ada","age":36}}
{"type":"Person","data":{"name":"Grace"}}
{"edge":"Knows","from":"Ada","to":"Grace"}
"""


# -- load --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def data(place: Path) -> str:
    (place / "data.jsonl").write_text(RECORDS)
    return "data.jsonl"


def test_a_load_is_told_in_one_line(run: Run, graph: str, data: str) -> None:
    ran = run("load", graph, "--data", data, "--mode", "merge")

    assert ran.code == 0
    assert ran.out == f"loaded {graph} on branch main with merge: 3 entities across 1 node types and 1 edge types\n"
    assert ran.err == f"omnigraph load → {graph} (direct, local)\n"


@pytest.mark.parametrize("words", [[], ["--mode", "replace"]])
def test_a_load_must_name_one_of_three_modes(run: Run, graph: str, data: str, words: list[str]) -> None:
    ran = run("load", graph, "--data", data, *words)

    assert ran.code == 2
    assert "--mode" in ran.err


def test_a_load_makes_its_branch_only_from_a_named_one(run: Run, graph: str, data: str) -> None:
    refused = run("load", graph, "--data", data, "--mode", "append", "--branch", "new")
    made = run("load", graph, "--data", data, "--mode", "append", "--branch", "new", "--from", "main")
    again = run("load", graph, "--data", data, "--mode", "merge", "--branch", "new", "--from", "main")

    assert "error[branch_not_found]" in refused.err
    assert made.out.endswith("branch new created from main\n")
    assert "created" not in again.out
    assert run("branch", "list", graph).out == "main\nnew\n"


def test_a_load_that_breaks_a_rule_loads_nothing(run: Run, graph: str, place: Path) -> None:
    (place / "bad.jsonl").write_text('{"edge":"Knows","from":"Ada","to":"Nobody"}\n')

    ran = run("load", graph, "--data", "bad.jsonl", "--mode", "merge")

    assert ran.code == 1
    assert "error[orphan_edge]" in ran.err
    assert "entities=0" in run("snapshot", graph).out


def test_overwriting_something_remote_needs_consent_and_merging_does_not_ask(run: Run, data: str) -> None:
    ran = run("load", "s3://no-such-bucket/g", "--data", data, "--mode", "overwrite")

    assert ran.code == 1
    assert "--yes" in ran.err


def test_a_load_with_a_used_key_does_nothing(run: Run, graph: str, data: str) -> None:
    words = ("load", graph, "--data", data, "--mode", "append", "--idempotency-key", "k", "--json")

    first, second = json.loads(run(*words).out), json.loads(run(*words).out)

    assert (first["total_entities"], second["total_entities"]) == (3, 0)
    assert first["commit"]["graph_commit_id"] == second["commit"]["graph_commit_id"]


def test_ingest_still_works_merges_from_main_and_warns(run: Run, graph: str, data: str) -> None:
    ran = run("ingest", graph, "--data", data, "--branch", "new", "--as", "act-me")

    assert ran.code == 0
    assert "warning: `ingest` is now `load`" in ran.err
    assert ran.out.splitlines() == [
        "ingested 3 entities from data.jsonl into branch new from main with merge (branch created)",
        "node type 'Person': 2 entities loaded",
        "edge type 'Knows': 1 entities loaded",
        "actor_id: act-me",
    ]


# -- export ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def loaded(run: Run, graph: str, data: str) -> str:
    assert run("load", graph, "--data", data, "--mode", "merge").code == 0
    return graph


def test_an_export_is_records_on_stdout_that_load_again(run: Run, loaded: str, place: Path) -> None:
    ran = run("export", loaded)
    (place / "exported.jsonl").write_text(ran.out)
    run("init", "--schema", "schema.pg", "copy.omni")
    again = run("load", "copy.omni", "--data", "exported.jsonl", "--mode", "append")

    assert ran.code == again.code == 0
    assert ran.err == ""
    assert [set(json.loads(line)) for line in ran.out.splitlines()][1:] == [{"type", "data"}, {"type", "data"}]
    assert run("export", "copy.omni").out == ran.out


def test_an_export_of_some_types_and_of_another_state(run: Run, loaded: str, add: Run) -> None:
    then = json.loads(run("commit", "list", loaded, "--json").out)["commits"][0]["graph_commit_id"]
    run("branch", "create", "b", "--uri", loaded)
    add("Bo", "--branch", "b")

    assert len(run("export", loaded, "--type", "Person").out.splitlines()) == 2
    assert len(run("export", loaded, "--type", "Person", "--type", "Knows").out.splitlines()) == 3
    assert len(run("export", loaded, "--branch", "b").out.splitlines()) == 4
    assert len(run("export", loaded, "--at", then).out.splitlines()) == 3
    assert run("export", loaded, "--at", then, "--branch", "b").code == 2
    assert run("export", loaded, "--type", "Nothing").code == 1


def test_an_export_to_files(run: Run, loaded: str, place: Path) -> None:
    one = run("export", loaded, "--out", "all.jsonl")
    many = run("export", loaded, "--out", "tables", "--format", "csv")

    assert one.out == "all.jsonl\n"
    assert (place / "all.jsonl").read_text() == run("export", loaded).out
    assert sorted(many.out.split()) == ["tables/edges/Knows.csv", "tables/nodes/Person.csv"]
    assert run("export", loaded, "--format", "csv").code == 2


def test_the_old_flag_of_export_warns(run: Run, loaded: str) -> None:
    ran = run("export", loaded, "--jsonl")

    assert ran.code == 0
    assert ran.err.startswith("warning: --jsonl")
    assert ran.out == run("export", loaded).out


# -- in a bucket -------------------------------------------------------------------------------------------------------


@pytest.mark.s3
def test_a_graph_in_a_bucket(run: Run, s3_uri: str, data: str) -> None:
    assert run("init", "--schema", "schema.pg", s3_uri).out == f"initialized {s3_uri}\n"
    loaded = run("load", s3_uri, "--data", data, "--mode", "overwrite", "--yes")
    assert loaded.code == 0
    assert loaded.err == f"omnigraph load → {s3_uri} (direct, remote)\n"
    assert run("branch", "create", "b", "--uri", s3_uri, "--quiet").code == 0
    assert run("branch", "delete", "b", "--uri", s3_uri).code == 1
    assert run("branch", "delete", "b", "--uri", s3_uri, "--yes").code == 0
    assert "entities=2" in run("snapshot", s3_uri).out
    assert run("doctor", s3_uri).code == 0


def test_rows_are_set_aside_up_to_a_limit(run: Run, tmp_path: Path) -> None:
    graph, data = str(tmp_path / "q.omni"), tmp_path / "q.jsonl"
    og.init(graph, schema="node Person { name: String @key  age: I32? }")
    data.write_text('{"type":"Person","data":{"name":"a"}}\n{"type":"Person","data":{"name":"b","age":"x"}}\n')
    rejects = tmp_path / "rejects.parquet"
    asked = ("load", graph, "--data", str(data), "--mode", "merge")
    assert run(*asked).code != 0
    ran = run(*asked, "--quarantine", "1", "--rejects", str(rejects))
    assert ran.out.splitlines()[1:] == ["set aside: 1 by type"]
    assert parquet.read_table(rejects).column("number").to_pylist() == [2]
    assert "--rejects needs --quarantine" in run(*asked, "--rejects", str(rejects)).err


def test_several_files_are_loaded_in_one_commit(run: Run, place: Path) -> None:
    (place / "schema.pg").write_text("node Person { name: String @key }\nedge Knows: Person -> Person")
    (place / "people.jsonl").write_text("".join(f'{{"type":"Person","data":{{"name":"{n}"}}}}\n' for n in "ab"))
    (place / "knows.jsonl").write_text('{"edge":"Knows","from":"a","to":"b"}\n')
    run("init", "--schema", "schema.pg", "two.omni")
    # The edge stands in the first file: only together the two are a graph.
    done = run("load", "two.omni", "--data", "knows.jsonl", "--data", "people.jsonl", "--mode", "append", "--json")
    told = json.loads(done.out)
    assert [each["entities_loaded"] for each in (*told["nodes"], *told["edges"])] == [2, 1]
    commits = json.loads(run("commit", "list", "two.omni", "--json").out)["commits"]
    assert len(commits) == 2
