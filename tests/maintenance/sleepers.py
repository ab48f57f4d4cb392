"""What processes do that are stopped in the middle of it, and what must hold when they have gone on."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import omnigraph as og
from crash.graph_copies import neighbour, replace_graph
from maintenance.library import doc, library, put, slugs
from omnigraph import counters, failpoints
from omnigraph.manifest import branch_lease
from omnigraph.manifest.layout import MANIFEST
from omnigraph.manifest.reclaimed import read_reclaimed
from omnigraph.manifest.states import resolve
from omnigraph.storage.lance.paths import table_dir

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.manifest.snapshot import Snapshot

NOW = dt.timedelta(0)
# The lease of the processes that are stopped: others need not wait for long.
SHORT = {"OMNIGRAPH_LEASE_SECONDS": "1"}


class Scene:
    """A graph with old commits that nothing keeps, put back to its beginning for every try, always at one place."""

    def __init__(self, place: Path) -> None:
        graph = library(place, 4)
        graph.load({"Cites": [{"from": "d1", "to": "d2"}]})
        graph.branches.create("side")
        for number in range(10, 13):
            put(graph, doc(number), branch="side")
        graph.branches.create("behind")
        for number in range(4, 7):
            put(graph, doc(number))
        self.uri = graph.uri
        # The newest first. The branches keep the fourth, at which they began.
        self.commits = [each.id for each in graph.commits()]
        self.on_side = [each.id for each in graph.commits(branch="side")]
        self._beginning = neighbour(self.uri, "beginning")
        replace_graph(self._beginning, self.uri)

    def reset(self) -> None:
        replace_graph(self.uri, self._beginning)


def clean(uri: str) -> dict[str, str | None]:
    """A cleanup that takes all it may; by table, what went wrong."""
    report = og.open(uri).cleanup(keep=1, grace=NOW)
    return {each.table_key: each.error for each in report.tables}


def clean_after(uri: str, grace: float) -> int:
    """A cleanup that leaves readers so many seconds; how many versions it takes."""
    return og.open(uri).cleanup(keep=1, grace=dt.timedelta(seconds=grace)).versions_removed


def put_one(uri: str, number: int) -> None:
    put(og.open(uri), doc(number))


def blindly(uri: str, work: str, *arguments: Any) -> object:
    """Do something as a process that is stopped between its look at the lease and the step: it looks at none."""
    counters.require_leases = lambda: None
    return globals()[work](uri, *arguments)


def blindly_once_it_has_the_lease(uri: str, stop: str, work: str, *arguments: Any) -> object:
    """The same; its steps are counted from the moment it has the lease on branches, however long it waited for that."""
    acquire = branch_lease.acquire

    def acquire_and_arm(*given: Any, **named: Any) -> Any:
        lease = acquire(*given, **named)
        failpoints.arm(stop)
        branch_lease.acquire = acquire
        return lease

    branch_lease.acquire = acquire_and_arm
    return blindly(uri, work, *arguments)


def merge_main_into_behind(uri: str) -> None:
    og.open(uri).merge("main", into="behind")


def tag(uri: str, name: str, commit_id: str | None = None) -> None:
    og.open(uri).tags.create(name, commit_id)


def branch(uri: str, name: str, commit_id: str = "main") -> None:
    og.open(uri).branches.create(name, from_=commit_id)


def write_to_main(uri: str) -> None:
    graph = og.open(uri)
    put(graph, doc(20))
    put(graph, doc(21))


def rows(graph: og.Graph, snapshot: Snapshot) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table of a state, read from the store."""
    tables = graph._manifest.stores.tables
    return {each.table_key: tables.open_once(each.pin).read().to_pylist() for each in snapshot}


def state_of(uri: str, commit_id: str) -> dict[str, list[dict[str, Any]]]:
    graph = og.open(uri, read_only=True)
    return rows(graph, graph.snapshot(at=commit_id))


def wrong_with_tag(uri: str, name: str, expected: dict[str, Any] | None) -> list[str]:
    """What is wrong with a tag of that state; None: with one that was refused."""
    graph = og.open(uri, read_only=True)
    if expected is None:
        return [f"the refused tag {name} is there"] if name in {each.name for each in graph.tags.list()} else []
    found = rows(graph, resolve(graph._manifest, name))
    return [] if found == expected else [f"tag {name} does not read as its commit did"]


def wrong_with_branch(uri: str, name: str, expected: dict[str, Any] | None) -> list[str]:
    """The same of a branch, which must also take a write."""
    graph = og.open(uri)
    if expected is None:
        there = name in graph.branches or graph._manifest.stores.objects.exists(table_dir(MANIFEST, name))
        return [f"the refused branch {name} is there"] if there else []
    if rows(graph, graph.snapshot(branch=name)) != expected:
        return [f"branch {name} does not read as its commit did"]
    before = slugs(graph, branch=name)
    put(graph, doc(90), branch=name)
    return [] if slugs(og.open(uri), branch=name) == sorted([*before, "d90"]) else [f"branch {name} takes no write"]


def left_over(uri: str) -> list[str]:
    """What the next cleanup leaves that it should not."""
    wrong = [f"{key}: {error}" for key, error in clean(uri).items() if error]
    graph = og.open(uri)
    record, _ = read_reclaimed(graph._manifest.stores.objects)
    wrong += [f"{run} is still running" for run in record.running]
    for line, gone in record.deleted.items():
        files = og.open(uri)._manifest.stores.tables.open_newest(line.path, line.branch).handle.version_refs()
        wrong += [f"{line} {each['version']} is gone and there" for each in files if each["version"] in gone]
    return wrong
