"""What the children of these tests do. Each function opens the graph anew, as another program would."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from manifest.graphs import BLUEPRINT, EAGER, at, publish_next, reopen, request
from omnigraph import failpoints
from omnigraph.errors import Contention, OmniGraphError
from omnigraph.manifest.graph_manifest import GraphManifest, create_manifest
from omnigraph.manifest.layout import MAIN
from omnigraph.storage.tables import probe
from omnigraph.world import REAL

if TYPE_CHECKING:
    from omnigraph.manifest.publisher import NewVersion, PublishRequest


def init(uri: str) -> str:
    """Make a graph; the id of its first commit."""
    head = create_manifest(at(uri), BLUEPRINT, REAL).lineage().head
    assert head is not None
    return head.id


def open_graph(uri: str) -> list[str]:
    """Open for writing, which migrates; the ids of main's commits."""
    return [commit.id for commit in reopen(uri).lineage().newest_first()]


def open_graph_losing(uri: str, step: int) -> bool:
    """Open for writing while the answer to one durable step is lost: whether the migration came to it."""
    from crash.suspension.lost_answers import LostAnswer

    lost = LostAnswer(step)
    lost.arm()
    with suppress(OmniGraphError):  # the caller is told that the store failed, and opens the graph again
        reopen(uri)
    return lost.happened


def publish(uri: str, what: PublishRequest, branch: str = MAIN) -> str:
    """Publish one request; its commit id."""
    return reopen(uri).publish(what, branch=branch).commit.id


def publish_some(uri: str, table_key: str, times: int, branch: str = MAIN) -> list[str]:
    """Publish the next version of a table a few times, tidying eagerly."""
    graph = GraphManifest(at(uri), world=REAL, manifest_policy=EAGER)
    return [publish_next(graph, table_key, branch=branch).commit.id for _ in range(times)]


def publish_version(uri: str, new: NewVersion, branch: str = MAIN) -> str:
    """Publish one version of a table with nothing expected; the commit id."""
    return reopen(uri).publish(request(new), branch=branch).commit.id


def create_branch(uri: str, name: str, source: str = MAIN, commit_id: str | None = None) -> None:
    """Make a branch."""
    reopen(uri).create_branch(name, source=source, commit_id=commit_id)


def delete_branch(uri: str, name: str) -> None:
    """Remove a branch."""
    reopen(uri).delete_branch(name)


def init_dying(uri: str, failpoint: str) -> str:
    """Make a graph on a store that is known to be safe, with a failpoint armed from there on."""
    probe._found_safe.add(probe._identity(at(uri)))
    failpoints.arm(failpoint)
    return init(uri)


def open_as_nobody(uri: str) -> None:
    """Open a graph without any right to its files."""
    os.seteuid(65_534)
    reopen(uri)


def init_as_nobody(uri: str) -> None:
    """Make a graph where this user may not write."""
    os.seteuid(65_534)
    init(uri)


def open_read_only_as_nobody(uri: str) -> None:
    """As `open_as_nobody`, only to read."""
    os.seteuid(65_534)
    reopen(uri, read_only=True)


def branch_dying(uri: str, action: str, name: str, commit_id: str | None, failpoint: str) -> None:
    """Make or remove a branch, with a failpoint armed once the graph is open."""
    graph = reopen(uri)
    failpoints.arm(failpoint)
    if action == "create":
        graph.create_branch(name, commit_id=commit_id)
    else:
        graph.delete_branch(name)


def open_dying(uri: str, failpoint: str) -> list[str]:
    """Open for writing, which migrates main, with a failpoint armed."""
    failpoints.arm(failpoint)
    return open_graph(uri)


def publish_dying(uri: str, what: PublishRequest, branch: str, failpoint: str) -> str:
    """Publish on a branch, which migrates it first, with a failpoint armed once main is open."""
    graph = reopen(uri)
    failpoints.arm(failpoint)
    return graph.publish(what, branch=branch).commit.id


def publish_patiently(uri: str, table_key: str, times: int, branch: str = MAIN) -> None:
    """Publish the next version of a table a few times, tidying eagerly, and again when others were always first."""
    graph = GraphManifest(at(uri), world=REAL, manifest_policy=EAGER)
    deadline = REAL.monotonic() + 60
    while times:
        try:
            publish_next(graph, table_key, branch=branch)
            times -= 1
        except Contention:
            assert REAL.monotonic() < deadline


def create_branches(uri: str, prefix: str, count: int) -> None:
    """Make branches one after the other, from whatever is newest, and publish to each."""
    graph = GraphManifest(at(uri), world=REAL, manifest_policy=EAGER)
    for number in range(count):
        graph.create_branch(f"{prefix}-{number}")
        publish_next(graph, branch=f"{prefix}-{number}")
