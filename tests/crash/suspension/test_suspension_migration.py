"""Migrations of old graphs, stopped at each durable step while others migrate and publish, then resumed.

A migration holds no lease: whoever comes takes the steps that are missing, and each of them is taken once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from crash.suspension.cases import SKEW
from crash.suspension.play import LEASE, LEASE_SECONDS
from manifest import works
from manifest.graphs import AUTHOR, PAPER, chain, manifest_rows, reopen, version
from manifest.old_graphs import OldGraph, build
from manifest.test_migration_crashes import STEPS, same
from manifest.test_migrations import require_only_true_history, require_true_history, stamp_of
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.objects.store import open_control_store
from omnigraph.world import CLOCK_SKEW, REAL

if TYPE_CHECKING:
    from pathlib import Path

    from crash.zygote import Child, Zygote
    from omnigraph.manifest.graph_manifest import GraphManifest
    from servers.seaweed import Seaweed

pytestmark = pytest.mark.crash

POINTS = ("store.write", "store.step")
RIVALS = ("none", "open", "publish", "publish on the branch")
PLACES = [(stamp, step) for stamp, steps in STEPS.items() for step in range(1, steps + 1)]


@dataclass(frozen=True)
class Bucket:
    """As much of a path as building an old graph needs, in a bucket."""

    uri: str

    def __truediv__(self, name: str) -> Bucket:
        return Bucket(f"{self.uri}/{name}")

    def __str__(self) -> str:
        return self.uri

    def mkdir(self, *, parents: bool) -> None:
        """A bucket needs no folders."""

    def write_bytes(self, data: bytes) -> None:
        folder, _, name = self.uri.rpartition("/")
        open_control_store(parse_location(folder, REAL), REAL).write(name, data)


@dataclass
class Scene:
    """One old graph, a migration that is stopped, and a rival."""

    old: OldGraph
    zygote: Zygote
    skew: str | None = None

    @property
    def uri(self) -> str:
        return str(self.old.root)

    def play(self, point: str, step: int, rival: str) -> bool:
        """Whether the migration came to the step; what is wrong then is an assertion."""
        environment = {LEASE: str(LEASE_SECONDS), **({CLOCK_SKEW: self.skew} if self.skew else {})}
        victim = self.zygote.start(
            works.open_graph, self.uri, failpoints=f"{point}=stop@{step}", environment=environment
        )
        try:
            return self._play(victim, rival)
        finally:
            victim.kill()

    def lose(self, step: int) -> bool:
        """Whether the migration came to the step whose answer is lost; a migrator told so opens the graph again."""
        told = self.zygote.run(works.open_graph_losing, self.uri, step)
        assert str(told) == "done", told
        assert str(self.zygote.run(works.open_graph, self.uri)) == "done"
        self._require(reopen(self.uri), "main", None)
        return bool(told.value)

    def _play(self, victim: Child, rival: str) -> bool:
        if not victim.is_stopped():
            return False
        branch = "feature" if rival == "publish on the branch" else "main"
        published = None
        if rival == "open":
            assert str(self.zygote.run(works.open_graph, self.uri)) == "done"
        elif rival != "none":
            new = version(PAPER if branch == "main" else AUTHOR, 9, branch=None if branch == "main" else branch)
            outcome = self.zygote.run(works.publish_version, self.uri, new, branch)
            assert str(outcome) == "done"
            published = outcome.value
        victim.thaw()
        assert str(victim.outcome()) == "done"
        self._require(reopen(self.uri), branch, published)
        return True

    def _require(self, graph: GraphManifest, branch: str, published: str | None) -> None:
        assert stamp_of(graph) == "4"
        manifest_rows(graph)  # no key twice
        if published is None:
            require_only_true_history(graph, self.old)
            return
        for each in self.old.history:
            require_true_history(graph, self.old, each)
        assert chain(graph, branch)[0] == published


@pytest.mark.parametrize(("stamp", "step"), [(1, 2), (1, 5), (2, 4), (3, 1)])
def test_a_few_stops_of_a_migration(tmp_path: Path, zygote: Zygote, stamp: int, step: int) -> None:
    scene = Scene(build(tmp_path / "g", stamp), zygote)
    assert scene.play("store.step", step, "publish")


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(("stamp", "step"), PLACES)
def test_every_stop_of_a_migration_on_a_disk(tmp_path: Path, zygote: Zygote, stamp: int, step: int) -> None:
    played = 0
    for point in POINTS:
        for rival in RIVALS:
            for skew in (None, *SKEW.values()):
                played += 1
                scene = Scene(build(tmp_path / f"{played}", stamp), zygote, skew)
                assert scene.play(point, step, rival)
    lost = Scene(build(tmp_path / "lost", stamp), zygote)
    assert lost.lose(step)
    print(f"migration of v{stamp}, step {step}: {played + 1} cases, 0 violations")


@pytest.mark.timeout(600)
def test_a_stopped_migration_ends_as_an_undisturbed_one(tmp_path: Path, zygote: Zygote) -> None:
    peace = same(manifest_rows(reopen(str(build(tmp_path / "peace", 1).root))))
    for step in range(1, STEPS[1] + 1):
        scene = Scene(build(tmp_path / f"{step}", 1), zygote)
        assert scene.play("store.step", step, "open")
        assert same(manifest_rows(reopen(scene.uri))) == peace


@pytest.mark.slow
@pytest.mark.s3
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("stamp", STEPS)
def test_every_stop_of_a_migration_on_a_bucket(
    s3_uri: str, s3_server: Seaweed, zygote: Zygote, stamp: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Old graphs are built with bare Lance, which does not know of an endpoint for S3 alone.
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint)
    played = 0
    for step in range(1, STEPS[stamp] + 1):
        for point in POINTS:
            for rival in RIVALS:
                played += 1
                old = build(Bucket(f"{s3_uri}/{played}"), stamp)  # type: ignore[arg-type]
                skew = (None, *SKEW.values())[played % 3]
                assert Scene(old, zygote, skew).play(point, step, rival)
        played += 1
        assert Scene(build(Bucket(f"{s3_uri}/{played}"), stamp), zygote).lose(step)  # type: ignore[arg-type]
    print(f"migration of v{stamp} on a bucket: {played} cases, 0 violations")
