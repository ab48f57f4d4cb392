"""Graphs that earlier code wrote are opened by this one: the same history, the same rows, every sidecar recovered.

`tests/fixtures/README.md` describes the archive. Its graphs hold absolute paths, so they are unpacked at one fixed
directory, under a lock, for the time of one test.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import omnigraph as og
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Iterator

ARCHIVE = Path(__file__).parent / "fixtures" / "graphs.tar.gz"
ROOT = Path("/tmp/omnigraph-fixture-622891c")
GRAPH = ROOT / "graph.omni"
# The killed writers had leases of one second; others wait a little longer.
LEASE_SECONDS = 2
INSERT = {"graph.omni": 'insert Person { name: "today" }', "old": 'insert Author { handle: "today" }'}


def _expected() -> dict[str, Any]:
    with tarfile.open(ARCHIVE) as archive:
        member = archive.extractfile("expected.json")
        assert member is not None
        found: dict[str, Any] = json.load(member)
        return found


EXPECTED = _expected()


@pytest.fixture(autouse=True)
def unpacked() -> Iterator[None]:
    """The graphs, at the path that they were written at; no two processes use it at the same time."""
    with Path(f"{ROOT}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(ROOT, ignore_errors=True)
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(ROOT, filter="data")
        yield
        shutil.rmtree(ROOT)


def exported(graph: og.Graph, **state: str) -> list[str]:
    target = ROOT / "export.jsonl"
    graph.export(target, **state)  # type: ignore[arg-type]
    return sorted(target.read_text().splitlines())


def heads(graph: og.Graph) -> dict[str, list[str]]:
    return {each.name: exported(graph, branch=each.name) for each in graph.branches.list()}


def require_history(graph: og.Graph, expected: dict[str, Any]) -> None:
    """Every branch, tag and commit, and the rows of each, as the earlier code read them."""
    assert {each.name: each.commit_id for each in graph.tags.list()} == expected["tags"]
    assert heads(graph) == expected["heads"]
    for name, commits in expected["branches"].items():
        assert [each.id for each in graph.commits(branch=name)] == commits
    for commit_id, facts in expected["commits"].items():
        commit = graph.commit(commit_id)
        told = {name: getattr(commit, name) for name in facts} | {"created_at": commit.created_us}
        assert told == facts
        assert exported(graph, at=commit_id) == expected["rows"][commit_id]


def require_writable(graph: og.Graph, statement: str) -> None:
    """Every branch takes one more commit, and shows it."""
    for branch in [each.name for each in graph.branches.list()]:
        before = exported(graph, branch=branch)
        graph.mutate(f"query q() {{ {statement} }}", branch=branch)
        (row,) = set(exported(graph, branch=branch)) - set(before)
        assert "today" in row


def test_a_read_only_open_reads_every_commit_and_writes_nothing() -> None:
    before = _files(GRAPH)
    require_history(og.open(GRAPH, read_only=True), EXPECTED["graph"])
    assert _files(GRAPH) == before


def test_a_read_write_open_reads_every_commit_and_writes_to_every_branch() -> None:
    graph = og.open(GRAPH)
    require_history(graph, EXPECTED["graph"])
    require_writable(graph, INSERT["graph.omni"])
    graph.merge("feature", delete_branch=False)
    graph.optimize()
    assert any("gil" in each for each in exported(graph))


def test_tags_and_blobs_are_read() -> None:
    graph = og.open(GRAPH, read_only=True)
    people = "query q() { match { $p: Person } return { $p.name } }"
    assert len(graph.query(people, at="first").to_pylist()) == 15
    assert len(graph.query(people, at="merged").to_pylist()) == 14
    assert graph.blob("Person", "ada", "photo").read() == bytes(range(5))


@pytest.mark.parametrize("case", EXPECTED["sidecars"])
def test_what_a_killed_writer_left_is_recovered(case: str) -> None:
    expected = EXPECTED["sidecars"][case]
    _lay_over(case)
    (sidecar,) = GRAPH.glob("__recovery/*.json")
    assert json.loads(sidecar.read_text())["writer_kind"] == expected["kind"]
    before = _files(GRAPH)
    assert heads(og.open(GRAPH, read_only=True)) in (expected["heads"], EXPECTED["graph"]["heads"])
    assert _files(GRAPH) == before
    if _host_of(sidecar) != REAL.host():
        REAL.sleep(LEASE_SECONDS)
    graph = og.open(GRAPH)
    require_writable(graph, INSERT["graph.omni"])
    assert list(GRAPH.glob("__recovery/*.json")) == []
    assert _without_today(heads(graph)) == expected["heads"]


def test_a_sidecar_of_another_machine_is_recovered() -> None:
    """Its owner cannot be looked up here, so the writer waits until the lease has expired."""
    _lay_over("load_before_publish")
    (sidecar,) = GRAPH.glob("__recovery/*.json")
    sidecar.write_text(sidecar.read_text().replace(_host_of(sidecar), "another machine"))
    graph = og.open(GRAPH)
    graph.mutate('query q() { insert Person { name: "today" } }')
    assert list(GRAPH.glob("__recovery/*.json")) == []
    assert _without_today(heads(graph)) == EXPECTED["sidecars"]["load_before_publish"]["heads"]


def test_the_graph_has_what_it_is_kept_for() -> None:
    names = _files(GRAPH)
    for part in ("/_deletions/", "/_indices/", "/tree/feature/", "_schema_history/", "__tags/"):
        assert any(part in f"/{name}" for name in names), part
    assert sum(each["merged_parent"] is not None for each in EXPECTED["graph"]["commits"].values()) == 1


def test_every_writer_kind_has_a_case() -> None:
    kinds = {each["kind"] for each in EXPECTED["sidecars"].values()}
    assert kinds == {"Mutation", "Load", "SchemaApply", "BranchMerge", "EnsureIndices", "Optimize"}


@pytest.mark.parametrize("version", EXPECTED["old"])
def test_an_old_graph_is_read_without_a_write(version: str) -> None:
    root = ROOT / f"{version}.omni"
    before = _files(root)
    require_history(og.open(root, read_only=True), EXPECTED["old"][version]["seen"])
    assert _files(root) == before


@pytest.mark.parametrize("version", EXPECTED["old"])
def test_an_old_graph_is_migrated_and_keeps_its_history(version: str) -> None:
    graph = og.open(ROOT / f"{version}.omni")
    require_history(graph, EXPECTED["old"][version]["seen"])
    require_recorded(graph, EXPECTED["old"][version]["history"])
    require_writable(graph, INSERT["old"])
    again = og.open(ROOT / f"{version}.omni", read_only=True)
    require_recorded(again, EXPECTED["old"][version]["history"])


def require_recorded(graph: og.Graph, history: dict[str, list[dict[str, Any]]]) -> None:
    """The commits as the old release recorded them, with the table versions that made up each."""
    for commits in history.values():
        for recorded in commits:
            commit = graph.commit(recorded["id"])
            assert (commit.parent, commit.merged_parent, commit.actor, commit.created_us) == (
                recorded["parent"],
                recorded["merged_parent"],
                recorded["actor"],
                recorded["created_at"],
            )
            tables = {each.table_key: [each.version, each.branch] for each in graph.snapshot(at=commit.id)}
            assert tables == recorded["state"]


def _host_of(sidecar: Path) -> str:
    return str(json.loads(sidecar.read_text())["omnigraph_python"]["lease"]["owner"]["host"])


def _lay_over(case: str) -> None:
    for name in EXPECTED["sidecars"][case]["removed"]:
        (GRAPH / name).unlink()
    shutil.copytree(ROOT / "sidecars" / case, GRAPH, dirs_exist_ok=True)


def _without_today(tables: dict[str, list[str]]) -> dict[str, list[str]]:
    return {branch: [row for row in rows if '"today"' not in row] for branch, rows in tables.items()}


def _files(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in sorted(folder.rglob("*")) if each.is_file()}
