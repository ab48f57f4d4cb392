"""branch, commit, diff and recovery (surface §1.4)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from omnigraph.cli.render.commit_graph import draw_graph
from omnigraph.manifest.rows import GraphCommit

if TYPE_CHECKING:
    from collections.abc import Callable

    from cli.conftest import Ran

    Run = Callable[..., Ran]


def _ids(run: Run, *words: str) -> list[str]:
    return [each["graph_commit_id"] for each in json.loads(run("commit", "list", *words, "--json").out)["commits"]]


# -- branches ----------------------------------------------------------------------------------------------------------


def test_branches_are_made_from_main_or_another_and_listed_by_name(run: Run, graph: str) -> None:
    assert run("branch", "create", "b", "--uri", graph).out == "created branch b from main\n"
    assert run("branch", "create", "--from", "b", "--store", graph, "a").out == "created branch a from b\n"
    assert run("branch", "list", "--uri", graph).out == "main\na\nb\n"
    assert (
        run("branch", "list", "--store", graph, "--json").out
        == json.dumps({"branches": ["main", "a", "b"]}, indent=2) + "\n"
    )


def test_a_branch_begins_at_a_commit(run: Run, graph: str, add: Run) -> None:
    add("Ada")
    then = _ids(run, graph)[0]
    add("Bo")

    run("branch", "create", "old", "--uri", graph, "--at", then)

    assert "entities=1" in run("snapshot", graph, "--branch", "old").out


def test_a_taken_or_impossible_name_is_refused(run: Run, graph: str) -> None:
    run("branch", "create", "b", "--uri", graph)

    assert "error[branch_exists]" in run("branch", "create", "b", "--uri", graph).err
    assert "error[invalid_branch_name]" in run("branch", "create", "a b", "--uri", graph).err


def test_a_branch_is_deleted_once(run: Run, graph: str) -> None:
    run("branch", "create", "b", "--uri", graph)

    assert run("branch", "delete", "b", "--uri", graph).out == "deleted branch b\n"
    again = run("branch", "delete", "b", "--uri", graph)
    assert again.code == 1
    assert "error[branch_not_found]" in again.err
    assert run("branch", "delete", "main", "--uri", graph).code == 1


@pytest.fixture
def review(run: Run, graph: str, add: Run) -> str:
    """A branch with Bo on it; main has Ada."""
    add("Ada")
    run("branch", "create", "review", "--uri", graph)
    add("Bo", "--branch", "review")
    return "review"


def test_merging_tells_the_outcome(run: Run, graph: str, review: str, add: Run) -> None:
    assert run("branch", "merge", review, "--uri", graph).out == "merged review into main: fast_forward\n"
    assert run("branch", "merge", review, "--uri", graph).out == "merged review into main: already_up_to_date\n"
    add("Cy")
    add("Di", "--branch", review)
    assert run("branch", "merge", review, "--uri", graph).out == "merged review into main: merged\n"


def test_merging_into_another_branch(run: Run, graph: str, review: str) -> None:
    run("branch", "create", "other", "--uri", graph)

    assert run("branch", "merge", review, "--into", "other", "--uri", graph).out.startswith("merged review into other")


def test_a_merged_branch_goes_if_wanted(run: Run, graph: str, review: str) -> None:
    told = json.loads(run("branch", "merge", review, "--delete-branch", "--uri", graph, "--json").out)

    assert told == {"source": "review", "target": "main", "outcome": "fast_forward", "branch_deleted": True}
    assert run("branch", "list", graph).out == "main\n"


def test_a_refused_delete_after_a_merge_is_a_warning(run: Run, graph: str, review: str) -> None:
    run("branch", "create", "child", "--from", review, "--uri", graph)

    ran = run("branch", "merge", review, "--delete-branch", "--uri", graph)

    assert ran.code == 0
    assert "warning: branch review was merged but not deleted" in ran.err


def _grow(run: Run, graph: str, age: int, *words: str) -> None:
    params = json.dumps({"name": "Ada", "age": age})
    assert run("mutate", "grow", "--query", "queries.gq", "--store", graph, "--params", params, *words).code == 0


def test_conflicts_are_told_and_nothing_is_written(run: Run, graph: str, review: str) -> None:
    _grow(run, graph, 1)
    _grow(run, graph, 2, "--branch", review)
    before = _ids(run, graph)

    ran = run("branch", "merge", review, "--uri", graph)
    as_json = run("branch", "merge", review, "--uri", graph, "--json")

    assert ran.code == as_json.code == 1
    assert "DivergentUpdate node:Person 'Ada'" in ran.err
    body = json.loads(as_json.out)
    assert body["code"] == "conflict"
    assert [(each["kind"], each["type_key"], each["id"]) for each in body["merge_conflicts"]] == [
        ("DivergentUpdate", "node:Person", "Ada")
    ]
    assert _ids(run, graph) == before


def test_conflicts_are_settled_for_one_side(run: Run, graph: str, review: str) -> None:
    _grow(run, graph, 1)
    _grow(run, graph, 2, "--branch", review)

    told = run("branch", "merge", review, "--uri", graph, "--dry-run")
    merged = run("branch", "merge", review, "--uri", graph, "--resolve", "theirs")

    assert told.out.startswith("would merge review into main: merged, 1 conflicts\n  DivergentUpdate")
    assert merged.out == "merged review into main: merged\n"
    assert run("diff", review, "main", "--uri", graph).out == ""
    assert run("branch", "merge", review, "--uri", graph, "--resolve", "both").code == 2


# -- commits -----------------------------------------------------------------------------------------------------------


def test_commits_are_listed_newest_first(run: Run, graph: str, add: Run) -> None:
    add("Ada", "--as", "act-ada")
    add("Bo")

    newest, older, first = run("commit", "list", graph).out.splitlines()

    assert " actor=" not in newest
    assert older.endswith(" actor=act-ada")
    assert " graph_branch=main graph_manifest_version=1" in first
    assert newest.split()[0] > older.split()[0] > first.split()[0]


def test_commits_are_filtered_and_limited(run: Run, graph: str, add: Run) -> None:
    add("Ada", "--as", "act-ada")
    add("Bo", "--as", "act-bo")

    assert len(run("commit", "list", graph, "--filter", "actor=act-ada").out.splitlines()) == 1
    assert len(run("commit", "list", graph, "--filter", "actor=act-ada", "--filter", "branch=b").out.splitlines()) == 0
    assert len(run("commit", "list", graph, "--limit", "2").out.splitlines()) == 2
    assert run("commit", "list", graph, "--limit", "0").code == 2
    for wrong in ("actor", "colour=red"):
        assert run("commit", "list", graph, "--filter", wrong).code == 1


def test_one_commit_is_shown(run: Run, graph: str, review: str) -> None:
    commit, parent = _ids(run, graph, "--branch", review)[:2]

    lines = run("commit", "show", commit, "--uri", graph).out.splitlines()

    assert lines[0] == f"graph_commit_id: {commit}"
    assert lines[1] == "graph_branch: review"
    assert f"parent_commit_id: {parent}" in lines
    assert lines[-1].startswith("created_at: ")
    unknown = run("commit", "show", "01AAAAAAAAAAAAAAAAAAAAAAAA", "--store", graph)
    assert unknown.code == 1
    assert "error[not_found]" in unknown.err


def test_the_history_is_drawn_with_all_branches(run: Run, graph: str, review: str, add: Run) -> None:
    add("Cy")
    run("branch", "merge", review, "--uri", graph)

    lines = run("commit", "list", graph, "--graph").out.splitlines()

    assert [line[:4].rstrip().split(" 0")[0] for line in lines] == ["*", "|\\", "* |", "| *", "|/", "*", "*"]
    assert "(main)" in lines[0]
    assert "(review)" in lines[3]
    one = run("commit", "list", graph, "--graph", "--branch", review).out.splitlines()
    assert all(line.startswith("* ") for line in one)
    assert run("commit", "list", graph, "--graph", "--json").code == 2


def _history(**parents: str) -> list[GraphCommit]:
    """Commits by name, each with its parents as `ab`, from the oldest to the newest."""
    return [
        GraphCommit(
            id=name,
            branch="main",
            manifest_version=at,
            created_us=at,
            parent=given[0] if given else None,
            merged_parent=given[1] if len(given) > 1 else None,
        )
        for at, (name, given) in enumerate(parents.items())
    ]


@pytest.mark.parametrize(
    ("history", "picture"),
    [
        ({"a": "", "b": "a"}, ["* b", "* a"]),
        ({"a": "", "b": "a", "c": "a", "d": "bc"}, ["* d", "|\\", "| * c", "* | b", "|/", "* a"]),
        ({"a": "", "b": "a", "c": "a"}, ["* c", "| * b", "|/", "* a"]),
        (
            {"a": "", "b": "a", "c": "a", "d": "a"},
            ["* d", "| * c", "| | * b", "| |/", "|/", "* a"],
        ),
        (
            {"a": "", "b": "a", "c": "a", "d": "ab", "e": "dc"},
            ["* e", "|\\", "* | d", "|\\ \\", "| | * c", "| * | b", "| |/", "|/", "* a"],
        ),
        ({"a": "", "b": "a", "c": "", "d": "c", "e": "a"}, ["* e", "| * d", "| * c", "| * b", "|/", "* a"]),
        ({"a": "", "b": "a", "c": "", "d": "a", "e": "c"}, ["* e", "| * d", "* | c", " /", "| * b", "|/", "* a"]),
        ({"a": "x", "b": "y"}, ["* b", "* a"]),
        ({}, []),
    ],
)
def test_pictures_of_histories(history: dict[str, str], picture: list[str]) -> None:
    drawn = [f"{line} {commit.id if commit else ''}".rstrip() for line, commit in draw_graph(_history(**history))]

    assert drawn == picture


# -- diff and recovery -------------------------------------------------------------------------------------------------


def test_the_difference_of_two_branches_or_commits(run: Run, graph: str, review: str) -> None:
    newest, older = _ids(run, graph, "--branch", review)[:2]

    assert run("diff", "main", review, "--uri", graph).out == "node:Person inserted=1 updated=0 deleted=0\n"
    assert run("diff", newest, older, "--uri", graph).out == "node:Person inserted=0 updated=0 deleted=1\n"
    assert json.loads(run("diff", "main", review, "--store", graph, "--json").out) == {
        "before": "main",
        "after": "review",
        "datasets": [{"type_key": "node:Person", "inserted": 1, "updated": 0, "deleted": 0}],
    }
    assert run("diff", "main", "nobody", "--uri", graph).code == 1


def test_the_difference_row_by_row(run: Run, graph: str, review: str) -> None:
    _grow(run, graph, 7, "--branch", review)

    forth = run("diff", "main", review, "--rows", "--uri", graph).out.splitlines()
    back = run("diff", review, "main", "--rows", "--uri", graph).out.splitlines()
    (told,) = json.loads(run("diff", "main", review, "--rows", "--uri", graph, "--json").out)["datasets"]

    assert forth == ["insert node:Person Bo", "  name: Bo", "update node:Person Ada", "  age: null → 7"]
    assert back == ["update node:Person Ada", "  age: 7 → null", "delete node:Person Bo", "  name: Bo"]
    assert [(each["op"], each["id"]) for each in told["changes"]] == [("insert", "Bo"), ("update", "Ada")]
    assert (told["changes"][1]["before"]["age"], told["changes"][1]["after"]["age"]) == (None, 7)


def test_a_graph_that_never_crashed_has_no_recoveries(run: Run, graph: str) -> None:
    assert run("recovery", "list", graph).out == ""
    assert json.loads(run("recovery", "list", "--store", graph, "--json").out) == {"recoveries": []}
