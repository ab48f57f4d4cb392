"""The JSON of every command, against files that say what programs may rely on.

Ids, times and paths differ from run to run and are written as <id 1>, <time> and so on. To accept a change, delete the
file, run the test, and look at what it wrote.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from cli.conftest import Ran

    Run = Callable[..., Ran]

GOLDEN = Path(__file__).parent / "golden"
RECORDS = """\
{"type":"Person","data":{"name":"Ada","age":36}}
{"type":"Person","data":{"name":"Grace"}}
{"edge":"Knows","from":"Ada","to":"Grace"}
"""
WIDER = "node Person { name: String @key  age: I64?  city: String? }\nedge Knows: Person -> Person { since: Date? }\n"
ADD = ("mutate", "add", "--query", "queries.gq", "--as", "act-ada", "--params")

# In this order on one graph: each command sees what those before it did.
STORY: dict[str, tuple[str, ...]] = {
    "version": ("version",),
    "init": ("init", "--schema", "schema.pg", "graph.omni"),
    "load": ("load", "--data", "data.jsonl", "--mode", "merge"),
    "mutate": (*ADD, '{"name":"Bo"}'),
    "query": ("query", "everybody", "--query", "queries.gq"),
    "mutate_lost": (*ADD, '{"name":"Cy"}', "--if-commit", "01AAAAAAAAAAAAAAAAAAAAAAAA"),
    "branch_create": ("branch", "create", "review", "--as", "act-ada"),
    "branch_list": ("branch", "list"),
    "ingest": ("ingest", "--data", "data.jsonl", "--branch", "review"),
    "mutate_on_branch": (*ADD, '{"name":"Di"}', "--branch", "review"),
    "diff": ("diff", "main", "review"),
    "branch_merge": ("branch", "merge", "review", "--delete-branch"),
    "branch_create_again": ("branch", "create", "old", "--quiet"),
    "branch_delete": ("branch", "delete", "old"),
    "commit_list": ("commit", "list"),
    "tag_create": ("tag", "create", "v1", "-m", "the first", "--as", "act-ada"),
    "tag_list": ("tag", "list"),
    "tag_delete": ("tag", "delete", "v1"),
    "snapshot": ("snapshot",),
    "schema_show": ("schema", "show"),
    "schema_plan": ("schema", "plan", "--schema", "wider.pg"),
    "lint": ("lint", "--query", "queries.gq"),
    "changes_poll": ("changes", "poll", "--start", "beginning"),
    "ensure_indices": ("ensure-indices",),
    "schema_apply": ("schema", "apply", "--schema", "wider.pg", "--as", "act-ada"),
    "optimize": ("optimize",),
    "repair": ("repair", "--confirm"),
    "cleanup": ("cleanup", "--keep", "1", "--older-than", "0s", "--grace", "0s", "--confirm"),
    "recovery_list": ("recovery", "list"),
    "doctor": ("doctor",),
    "profile_list": ("profile", "list"),
    "profile_show": ("profile", "show"),
}


def _scrubbed(text: str) -> str:
    seen: dict[str, str] = {}

    def named(match: re.Match[str]) -> str:
        return seen.setdefault(match[0], f"<id {len(seen) + 1}>")

    text = re.sub(r"\b(?!01A{24})0[0-9A-HJKMNP-TV-Z]{25}\b", named, text)
    text = re.sub(r'("(?:created|authored)_at": )(?:\d+|"[^"]+")', r'\1"<time>"', text)
    text = re.sub(r'("(?:cursor|resume_cursor)": )"[^"]+"', r'\1"<cursor>"', text)
    return re.sub(r'("bytes_removed": )[1-9]\d*', r'\1"<bytes>"', text)


def test_the_json_of_every_command(run: Run, place: Path, configure: Callable[[str], None]) -> None:
    (place / "data.jsonl").write_text(RECORDS)
    (place / "wider.pg").write_text(WIDER)
    configure("defaults: {store: graph.omni}\nprofiles: {here: {store: graph.omni}}")

    for name, words in STORY.items():
        ran = run(*words, "--json")
        assert ran.code == (4 if name == "mutate_lost" else 0), f"{name}: {ran.err}"
        json.loads(ran.out)
        _compare(name, _scrubbed(ran.out))


def _compare(name: str, printed: str) -> None:
    golden = GOLDEN / f"{name}.json"
    if not golden.exists():
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(printed)
        pytest.fail(f"{golden.name} was not there; look at what was written")
    assert printed == golden.read_text(), f"{name} prints something else than golden/{name}.json"


def test_there_is_no_golden_file_without_a_command() -> None:
    assert {each.stem for each in GOLDEN.glob("*.json")} == set(STORY)


@pytest.mark.crash
def test_an_operation_that_was_killed_is_recovered_and_listed(run: Run, spawn: Run, graph: str) -> None:
    words = (*ADD, '{"name":"Ada"}', "--store", graph)

    killed = spawn(*words, OMNIGRAPH_FAILPOINTS="commit.before_publish=kill")
    after = run(*ADD, '{"name":"Bo"}', "--store", graph)
    line = run("recovery", "list", graph).out
    (recovery,) = json.loads(run("recovery", "list", graph, "--json").out)["recoveries"]

    assert killed.code == -9
    assert after.code == 0
    assert "entities=2" in run("snapshot", graph).out
    assert " RolledForward writer=Mutation commit=" in line
    assert line.endswith(" actor=act-ada\n")
    assert recovery["recovery_kind"] == "RolledForward"
    assert recovery["actor_id"] == "act-ada"
    assert [each["type_key"] for each in recovery["datasets"]] == ["node:Person"]
