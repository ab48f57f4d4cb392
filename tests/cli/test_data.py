"""init, load, mutate and snapshot (surface §1.4)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

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


# -- init --------------------------------------------------------------------------------------------------------------


def test_init_says_where_and_makes_the_directories_above(run: Run, place: Path) -> None:
    ran = run("init", "--schema", "schema.pg", "deep/er/graph.omni")

    assert (ran.code, ran.out, ran.err) == (0, "initialized deep/er/graph.omni\n", "")
    assert (place / "deep" / "er" / "graph.omni" / "__manifest").is_dir()


def test_init_takes_its_options_in_any_order(run: Run) -> None:
    assert run("init", "graph.omni", "--schema", "schema.pg", "--json").out == '{\n  "uri": "graph.omni"\n}\n'


def test_init_needs_a_schema(run: Run) -> None:
    ran = run("init", "graph.omni")

    assert ran.code == 2
    assert "--schema" in ran.err


def test_init_never_touches_a_graph(run: Run, graph: str) -> None:
    for words in ([], ["--force"]):
        ran = run("init", "--schema", "schema.pg", graph, *words)
        assert ran.code == 1
        assert "error[already_initialized]" in ran.err


def test_force_replaces_schema_files_without_a_graph(run: Run, place: Path) -> None:
    (place / "graph.omni").mkdir()
    (place / "graph.omni" / "_schema.pg").write_text("node Old {}")

    refused = run("init", "--schema", "schema.pg", "graph.omni")
    forced = run("init", "--schema", "schema.pg", "graph.omni", "--force")

    assert refused.code == 1
    assert forced.code == 0
    assert "Person" in (place / "graph.omni" / "_schema.pg").read_text()


def test_a_wrong_schema_is_told_with_its_place_and_leaves_nothing(run: Run, place: Path) -> None:
    (place / "wrong.pg").write_text("node Person { name: Sting @key }")

    ran = run("init", "--schema", "wrong.pg", "graph.omni")

    assert ran.code == 1
    assert "wrong.pg" in ran.err
    assert not (place / "graph.omni").exists()


@pytest.mark.parametrize("name", ["missing.pg", "."])
def test_a_schema_file_that_cannot_be_read_is_the_users_mistake(run: Run, name: str) -> None:
    ran = run("init", "--schema", name, "graph.omni")

    assert ran.code == 1
    assert ran.err.startswith(f"error[invalid_input]: the schema file {name} cannot be read: ")


def test_a_schema_file_in_another_encoding_is_the_users_mistake(run: Run, place: Path) -> None:
    (place / "latin.pg").write_bytes(b"// \xe9\nnode Person { name: String @key }")

    assert "is not UTF-8" in run("init", "--schema", "latin.pg", "graph.omni").err


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


# -- mutate ------------------------------------------------------------------------------------------------------------


def test_a_mutation_is_told_in_one_line(run: Run, add: Run) -> None:
    assert add("Ada").out == "changed main via add: 1 nodes, 0 edges\n"
    assert add("Bo", "--as", "act-me").out == "changed main via add: 1 nodes, 0 edges\nactor_id: act-me\n"


def test_a_mutation_is_given_as_text_and_its_parameters_as_a_file(run: Run, graph: str, place: Path) -> None:
    (place / "params.json").write_text('{"n": "Ada"}')
    text = "query one($n: String) { insert Person { name: $n } }"

    assert run("mutate", "--store", graph, "-e", text, "--params-file", "params.json").code == 0
    assert run("mutate", "--store", graph, "--query-string", text, "--params", '{"n":"Bo"}').code == 0
    assert "entities=2" in run("snapshot", graph).out


@pytest.mark.parametrize(
    ("words", "both"),
    [
        (["--query", "queries.gq", "-e", "query q() {}"], "--query and --query-string"),
        (["-e", "query q() {}", "--params", "{}", "--params-file", "p"], "--params and --params-file"),
    ],
)
def test_the_query_and_its_parameters_are_given_once(run: Run, graph: str, words: list[str], both: str) -> None:
    ran = run("mutate", "--store", graph, *words)

    assert ran.code == 2
    assert both in " ".join(ran.err.split())


def test_a_name_alone_would_be_a_stored_query_and_those_are_served(run: Run, graph: str) -> None:
    ran = run("mutate", "add", "--store", graph)

    assert ran.code == 1
    assert "stored queries are run by servers" in ran.err


def test_of_several_queries_one_must_be_named(run: Run, graph: str) -> None:
    unnamed = run("mutate", "--query", "queries.gq", "--store", graph)
    unknown = run("mutate", "nobody", "--query", "queries.gq", "--store", graph)

    assert unnamed.code == unknown.code == 1
    assert "add" in unnamed.err
    assert "nobody" in unknown.err


def test_mutate_takes_no_positional_uri(run: Run, graph: str) -> None:
    assert run("mutate", "add", graph, "--query", "queries.gq").code == 2


@pytest.mark.parametrize(
    ("params", "said"),
    [("{", "not JSON"), ("[1]", "JSON object"), ('{"nmae":"x"}', "nmae"), ('{"name":3}', "name")],
)
def test_wrong_parameters_are_the_users_mistake(run: Run, graph: str, params: str, said: str) -> None:
    ran = run("mutate", "add", "--query", "queries.gq", "--store", graph, "--params", params)

    assert ran.code == 1
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_a_mutation_goes_to_its_branch(run: Run, graph: str, add: Run) -> None:
    run("branch", "create", "b", "--uri", graph)

    assert add("Ada", "--branch", "b").out.startswith("changed b via add")
    assert "entities=1" not in run("snapshot", graph).out
    assert "entities=1" in run("snapshot", graph, "--branch", "b").out


def test_a_lost_precondition_exits_4(run: Run, graph: str, add: Run) -> None:
    head = json.loads(run("commit", "list", graph, "--json").out)["commits"][0]["graph_commit_id"]
    words = (
        "mutate",
        "add",
        "--query",
        "queries.gq",
        "--store",
        graph,
        "--if-commit",
        head,
        "--params",
        '{"name":"Bo"}',
    )

    won = run(*words)
    lost = run(*words)
    as_json = run(*words, "--json")

    assert won.code == 0
    assert (lost.code, lost.out) == (4, "")
    assert f"expected at commit {head}" in lost.err
    assert (as_json.code, as_json.err) == (4, "")
    body = json.loads(as_json.out)
    assert set(body) == {"error", "precondition_failure"}
    assert body["precondition_failure"]["expected"] == head
    assert body["precondition_failure"]["actual"] != head


def test_a_mutation_that_matches_nothing_makes_no_commit(run: Run, graph: str) -> None:
    params = '{"name":"Nobody","age":1}'

    told = json.loads(
        run("mutate", "grow", "--query", "queries.gq", "--store", graph, "--params", params, "--json").out
    )

    assert told == {"branch": "main", "query_name": "grow", "affected_nodes": 0, "affected_edges": 0, "commit": None}


def test_a_mutation_with_a_used_key_does_nothing_and_says_so(run: Run, graph: str, add: Run) -> None:
    add("Ada", "--idempotency-key", "k")

    assert "repeated: commit " in add("Ada", "--idempotency-key", "k").out


# -- snapshot ----------------------------------------------------------------------------------------------------------


def test_a_snapshot_in_a_pipe_is_the_lines_that_scripts_read(run: Run, graph: str, add: Run) -> None:
    add("Ada")
    run("branch", "create", "b", "--uri", graph)
    add("Bo", "--branch", "b")

    lines = run("snapshot", graph, "--branch", "b").out.splitlines()

    assert lines[0] == "graph_branch: b"
    assert lines[1].startswith("graph_manifest_version: ")
    assert lines[2] == "internal_schema_version: 4"
    assert lines[3] == "edge type 'Knows' published_dataset_version=1 native_dataset_branch=main entities=0"
    assert lines[4].startswith("node type 'Person' published_dataset_version=")
    assert lines[4].endswith(" native_dataset_branch=b entities=2")


def test_a_snapshot_of_the_past(run: Run, graph: str, add: Run) -> None:
    add("Ada")
    then = json.loads(run("commit", "list", graph, "--json").out)["commits"][0]["graph_commit_id"]
    add("Bo")

    assert "entities=1" in run("snapshot", graph, "--at", then).out
    assert run("snapshot", graph, "--at", then, "--branch", "main").code == 2


def test_an_unknown_branch_or_graph_is_told(run: Run, graph: str) -> None:
    assert "error[branch_not_found]" in run("snapshot", graph, "--branch", "nobody").err
    assert "error[not_a_graph]" in run("snapshot", "nowhere.omni").err


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
