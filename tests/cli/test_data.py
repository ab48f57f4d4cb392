"""init, mutate and snapshot (surface §1.4)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cli.conftest import Ran

    Run = Callable[..., Ran]


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
