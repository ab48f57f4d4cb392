"""schema show, schema plan and lint (surface §1.4, query §10)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from cli.conftest import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cli.conftest import Ran

    Run = Callable[..., Ran]

WIDER = "node Person { name: String @key  age: I64?  city: String? }\nedge Knows: Person -> Person { since: Date? }\n"
WITHOUT_AGE = "node Person { name: String @key }\nedge Knows: Person -> Person { since: Date? }\n"
OTHER_KEY = "node Person { name: String  age: I32 @key }\nedge Knows: Person -> Person { since: Date? }\n"


@pytest.mark.parametrize("verb", ["show", "get"])
def test_the_schema_is_printed_as_it_was_written(run: Run, graph: str, verb: str) -> None:
    assert run("schema", verb, graph).out == SCHEMA
    assert json.loads(run("schema", verb, "--store", graph, "--json").out) == {"schema_source": SCHEMA}


def test_the_canonical_schema_has_one_layout(run: Run, graph: str) -> None:
    printed = run("schema", "show", graph, "--canonical").out

    assert "//" not in printed
    assert "node Person {\n" in printed


def test_a_plan_is_made_against_a_graph_or_a_file(run: Run, graph: str, place: Path) -> None:
    (place / "new.pg").write_text(WIDER)

    of_graph = json.loads(run("schema", "plan", graph, "--schema", "new.pg", "--json").out)
    of_file = json.loads(run("schema", "plan", "--from", "schema.pg", "--schema", "new.pg", "--json").out)

    assert of_graph["uri"] == graph
    assert of_file["uri"] == "schema.pg"
    assert list(of_graph) == ["uri", "supported", "step_count", "steps"]
    assert of_graph["supported"] is True
    assert of_graph["step_count"] == len(of_graph["steps"]) == 2
    assert of_graph["steps"] == of_file["steps"]
    assert {step["kind"] for step in of_graph["steps"]} == {"widen_property", "add_property"}
    assert run("schema", "plan", graph, "--from", "schema.pg", "--schema", "new.pg").code == 2


def test_a_plan_for_people(run: Run, place: Path) -> None:
    (place / "new.pg").write_text(WIDER)

    lines = run("schema", "plan", "--from", "schema.pg", "--schema", "new.pg").out.splitlines()

    assert lines[:2] == ["schema plan for schema.pg", "supported: yes"]
    assert all(line.startswith("- ") for line in lines[2:])
    assert run("schema", "plan", "--from", "schema.pg", "--schema", "schema.pg").out.endswith("\nno schema changes\n")


def test_a_plan_that_cannot_be_carried_out_says_why_and_is_not_a_failure(run: Run, place: Path) -> None:
    (place / "new.pg").write_text(OTHER_KEY)

    ran = run("schema", "plan", "--from", "schema.pg", "--schema", "new.pg")

    assert ran.code == 0
    assert "supported: no" in ran.out
    assert "  way out: " in ran.out


def test_dropping_for_good_is_planned_on_demand(run: Run, place: Path) -> None:
    (place / "new.pg").write_text(WITHOUT_AGE)
    words = ("schema", "plan", "--from", "schema.pg", "--schema", "new.pg", "--json")

    soft, hard = json.loads(run(*words).out), json.loads(run(*words, "--allow-data-loss").out)

    assert [step["mode"] for step in (*soft["steps"], *hard["steps"])] == ["soft", "hard"]


def test_a_schema_is_applied_and_the_author_is_kept(run: Run, graph: str, place: Path) -> None:
    (place / "new.pg").write_text(WIDER)
    words = ("schema", "apply", graph, "--schema", "new.pg")

    dry = run(*words, "--dry-run")
    done = json.loads((ran := run(*words, "--json", "--as", "act-ada")).out)
    again = json.loads(run(*words, "--json").out)

    assert dry.out.splitlines()[-1] == "applied: no"
    assert list(done) == ["uri", "supported", "applied", "graph_manifest_version", "step_count", "steps"]
    assert (done["supported"], done["applied"], done["step_count"]) == (True, True, 2)
    assert f"omnigraph schema apply → {graph} (direct, local)" in ran.err
    assert (again["applied"], again["steps"]) == (False, [])
    assert run("schema", "show", graph).out == WIDER
    assert json.loads(run("commit", "list", graph, "--json").out)["commits"][0]["actor_id"] == "act-ada"


def test_branches_that_keep_the_earlier_schema_are_named(run: Run, graph: str, place: Path) -> None:
    (place / "new.pg").write_text(WIDER)
    run("branch", "create", "review", "--uri", graph)

    told = json.loads(run("schema", "apply", graph, "--schema", "new.pg", "--dry-run", "--json").out)
    ran = run("schema", "apply", graph, "--schema", "new.pg")
    merged = run("branch", "merge", "main", "--into", "review", "--uri", graph)

    assert told["branches_behind"] == ["review"]
    assert ran.out.splitlines()[-1].startswith("branch review keeps the earlier schema; `omnigraph branch merge main")
    assert merged.code == 0


def test_a_schema_that_cannot_be_applied_is_a_failure_and_changes_nothing(run: Run, graph: str, place: Path) -> None:
    (place / "new.pg").write_text(OTHER_KEY)

    ran = run("schema", "apply", graph, "--schema", "new.pg")

    assert ran.code == 1
    assert "OG-MF-107" in ran.err
    assert run("schema", "show", graph).out == SCHEMA


def test_a_schema_of_a_cluster_is_changed_there(run: Run, graph: str, place: Path) -> None:
    (place / "root/__cluster").mkdir(parents=True)
    (place / "root/__cluster/state.json").write_text("{}")

    ran = run("schema", "apply", str(place / "root/graphs/social.omni"), "--schema", "schema.pg")

    assert ran.code == 1
    assert "belongs to a cluster" in ran.err


def test_planning_needs_a_schema_and_a_place(run: Run) -> None:
    assert run("schema", "plan").code == 2
    assert "no graph addressed" in run("schema", "plan", "--schema", "schema.pg").err


# -- lint --------------------------------------------------------------------------------------------------------------


def test_lint_against_a_file_or_a_graph(run: Run, graph: str) -> None:
    of_file = json.loads(run("lint", "--query", "queries.gq", "--schema", "schema.pg", "--json").out)
    of_graph = json.loads(run("lint", graph, "--query", "queries.gq", "--json").out)
    of_store = json.loads(run("lint", "--store", graph, "--query", "queries.gq", "--json").out)

    assert of_file["schema_source"] == {"kind": "file", "path": "schema.pg"}
    assert of_graph["schema_source"] == of_store["schema_source"] == {"kind": "graph", "uri": graph}
    assert of_file["results"] == of_graph["results"]
    assert (of_file["status"], of_file["queries_processed"], of_file["query_path"]) == ("ok", 4, "queries.gq")


def test_lint_for_people(run: Run) -> None:
    assert run("lint", "--query", "queries.gq", "--schema", "schema.pg").out.splitlines() == [
        "OK    query `add` (mutation)",
        "OK    query `grow` (mutation)",
        "OK    query `meet` (mutation)",
        "OK    query `everybody` (read)",
        "INFO  Lint complete: 4 queries processed (0 error(s), 0 warning(s), 0 info item(s))",
    ]


def test_errors_exit_1_and_are_in_the_report(run: Run, place: Path) -> None:
    (place / "bad.gq").write_text("query bad() { match { $p: Persona } return { $p.name } }\n")

    ran = run("lint", "--query", "bad.gq", "--schema", "schema.pg")
    report = json.loads(run("lint", "--query", "bad.gq", "--schema", "schema.pg", "--json").out)

    assert ran.code == 1
    assert ran.out.startswith("ERROR query `bad`: T1")
    assert (report["status"], report["errors"]) == ("error", 1)


def test_a_text_that_is_no_query_is_a_finding(run: Run, place: Path) -> None:
    (place / "bad.gq").write_text("quarry bad() {}\n")

    ran = run("lint", "--query", "bad.gq", "--schema", "schema.pg")

    assert ran.code == 1
    assert ran.out.startswith("ERROR Q000 ")


def test_warnings_exit_0(run: Run, place: Path) -> None:
    (place / "quiet.gq").write_text('query fixed() { insert Person { name: "Ada" } }\n')

    ran = run("lint", "--query", "quiet.gq", "--schema", "schema.pg")

    assert ran.code == 0
    assert "WARN  query `fixed`" in ran.out


@pytest.mark.parametrize("words", [["check"], ["query", "lint"], ["query", "check"]])
def test_old_names_of_lint_still_work_and_warn(run: Run, words: list[str]) -> None:
    ran = run(*words, "--query", "queries.gq", "--schema", "schema.pg")

    assert ran.code == 0
    assert ran.err == f"warning: `{' '.join(words)}` is now `lint`\n"
    assert "Lint complete: 4 queries" in ran.out


def test_lint_needs_queries_and_a_schema(run: Run) -> None:
    assert run("lint", "--schema", "schema.pg").code == 2
    assert "no graph addressed" in run("lint", "--query", "queries.gq").err
    assert "cannot be read" in run("lint", "--query", "missing.gq", "--schema", "schema.pg").err
