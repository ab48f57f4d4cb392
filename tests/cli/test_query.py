"""query and its old name read (surface §1.4, §1.5)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from cli.conftest import Ran

    Run = Callable[..., Ran]

EVERYBODY = ("query", "everybody", "--query", "queries.gq", "--store", "graph.omni")


@pytest.fixture(autouse=True)
def people(add: Run) -> None:
    add("Ada")
    add("Bo")


def test_rows_are_a_table_unless_told_otherwise(run: Run) -> None:
    ran = run(*EVERYBODY)

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "2 rows from branch main via everybody",
        "p.name | p.age",
        "-------+------",
        "Ada    | null ",
        "Bo     | null ",
    ]


@pytest.mark.parametrize(
    ("form", "first"),
    [
        ("table", "2 rows from branch main via everybody"),
        ("kv", "2 rows from branch main via everybody"),
        ("csv", "p.name,p.age"),
        ("jsonl", '{"kind":"metadata","query_name":"everybody","target":{"branch":"main"},"row_count":2}'),
        ("json", "{"),
    ],
)
def test_every_format(run: Run, form: str, first: str) -> None:
    assert run(*EVERYBODY, "--format", form).out.splitlines()[0] == first


def test_json_is_the_envelope_with_the_commit_that_was_read(run: Run) -> None:
    head = json.loads(run("commit", "list", "graph.omni", "--json").out)["commits"][0]["graph_commit_id"]

    told = json.loads(run(*EVERYBODY, "--json").out)

    assert told == {
        "query_name": "everybody",
        "target": {"branch": "main"},
        "row_count": 2,
        "columns": ["p.name", "p.age"],
        "rows": [{"p.name": "Ada", "p.age": None}, {"p.name": "Bo", "p.age": None}],
        "graph_commit_id": head,
    }


def test_the_configuration_says_how_rows_are_printed_unless_a_flag_does(
    run: Run, configure: Callable[[str], None]
) -> None:
    configure("defaults: {output: csv}")

    assert run(*EVERYBODY).out.startswith("p.name,p.age")
    assert run(*EVERYBODY, "--format", "kv").out.startswith("2 rows")
    assert run(*EVERYBODY, "--json").out.startswith("{")


def test_the_configuration_says_how_wide_a_column_may_be(run: Run, add: Run, configure: Callable[[str], None]) -> None:
    add("Somebody with a name")
    configure("defaults: {table_max_column_width: 10}")
    assert "Somebody …" in run(*EVERYBODY).out
    configure("defaults: {table_max_column_width: 10, table_cell_layout: wrap}")
    assert "Somebody w | null \nith a name |      \n" in run(*EVERYBODY).out


def test_an_older_state_or_another_branch_is_read(run: Run, graph: str, add: Run) -> None:
    then = json.loads(run("commit", "list", graph, "--json").out)["commits"][1]["graph_commit_id"]
    run("branch", "create", "b", "--uri", graph)
    add("Cy", "--branch", "b")

    assert run(*EVERYBODY, "--snapshot", then).out.startswith(f"1 rows from snapshot {then} via everybody\n")
    assert run(*EVERYBODY, "--branch", "b").out.startswith("3 rows from branch b via everybody\n")
    assert json.loads(run(*EVERYBODY, "--snapshot", then, "--json").out)["target"] == {"snapshot": then}


@pytest.mark.parametrize(
    "words",
    [
        ["--branch", "main", "--snapshot", "x"],
        ["--format", "csv", "--json"],
        ["-e", "query q() {}"],
        ["--params", "{}", "--params-file", "x"],
        ["--format", "xml"],
        ["graph.omni"],
    ],
)
def test_options_that_exclude_each_other(run: Run, words: list[str]) -> None:
    assert run(*EVERYBODY, *words).code == 2


def test_a_query_is_given_as_text_with_parameters(run: Run, graph: str) -> None:
    text = "query one($n: String) { match { $p: Person { name: $n } } return { $p.name as who } }"

    assert run("query", "-e", text, "--params", '{"n":"Ada"}', "--store", graph, "--format", "csv").out == "who\nAda\n"
    missing = run("query", "-e", text, "--store", graph)
    assert missing.code == 1
    assert "error[query]" in missing.err


def test_a_name_alone_would_be_a_stored_query_and_those_are_served(run: Run, graph: str) -> None:
    assert "stored queries are run by servers" in run("query", "everybody", "--store", graph).err


def test_reads_and_mutations_are_not_mixed_up(run: Run, graph: str) -> None:
    mutation = run("query", "add", "--query", "queries.gq", "--store", graph, "--params", '{"name":"Cy"}')
    read = run("mutate", "everybody", "--query", "queries.gq", "--store", graph)

    assert mutation.code == read.code == 1
    assert "contains mutations" in mutation.err
    assert "only reads" in read.err


def test_a_query_may_take_so_long(run: Run) -> None:
    assert run(*EVERYBODY, "--timeout", "60").code == 0
    late = run(*EVERYBODY, "--timeout", "0.000001")
    assert late.code == 1
    assert "error[query_timed_out]" in late.err


def test_a_query_that_is_wrong_is_told_with_its_place(run: Run, graph: str) -> None:
    ran = run("query", "-e", "query q() { match { $p: Persona } return { $p.name } }", "--store", graph)

    assert ran.code == 1
    assert "Persona" in ran.err
    assert "Traceback" not in ran.err


def test_a_query_has_no_author(run: Run) -> None:
    assert "`query` is a data command; --as " in run(*EVERYBODY, "--as", "me").err


@pytest.mark.parametrize(("old", "new"), [("read", "query"), ("change", "mutate")])
def test_old_names_still_work_and_warn(run: Run, graph: str, old: str, new: str) -> None:
    name, params = ("everybody", "{}") if new == "query" else ("add", '{"name":"Cy"}')

    ran = run(old, name, "--query", "queries.gq", "--store", graph, "--params", params)

    assert ran.code == 0
    assert ran.err == f"warning: `{old}` is now `{new}`\n"


def test_explain_prints_the_plan_and_runs_nothing(run: Run) -> None:
    ran = run(*EVERYBODY, "--explain")

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[0].startswith("scan $p: Person")
    assert "≈" in ran.out
    assert " ms" not in ran.out


def test_analyze_prints_rows_and_times(run: Run) -> None:
    assert "= 2 rows in " in run(*EVERYBODY, "--analyze").out

    told = json.loads(run(*EVERYBODY, "--analyze", "--json").out)

    assert (told["query_name"], told["target"], told["analyzed"]) == ("everybody", {"branch": "main"}, True)
    assert [step["rows"] for step in told["operators"]] == [2, 2]


@pytest.mark.parametrize("other", [("--analyze",), ("--format", "csv")])
def test_a_plan_has_no_rows_to_format(run: Run, other: tuple[str, ...]) -> None:
    assert run(*EVERYBODY, "--explain", *other).code == 2
