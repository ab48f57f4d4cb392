"""Old versions of `__manifest` are collected, and nothing that anybody still needs goes with them."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import lance
import pytest

from manifest import works
from manifest.graphs import AUTHOR, EAGER, NEVER, PAPER, chain, create, dataset_of, publish_next, reopen
from omnigraph import failpoints
from omnigraph.counters import counting
from omnigraph.errors import StoreError
from omnigraph.failpoints import InjectedFaultError
from omnigraph.manifest.branch_lease import acquire_branch_lease
from omnigraph.manifest.compaction import DEFAULT_MANIFEST_POLICY, ManifestPolicy, collect, compact
from omnigraph.manifest.graph_manifest import GraphManifest
from omnigraph.manifest.layout import MANIFEST, physical_branch
from omnigraph.manifest.version_gc import VersionRetention, collect_versions, list_versions
from omnigraph.manifest.version_refs import ReferredVersions, names_in
from omnigraph.storage.lance.paths import table_dir
from omnigraph.storage.objects.location import parse_location
from omnigraph.world import REAL
from seeded_world import SeededWorld
from servers.counting_proxy import CountingProxy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from manifest.hands import Hands
    from servers.seaweed import Seaweed

T = TypeVar("T")

KEEP_THREE = VersionRetention(versions=3, commit_grace_seconds=0, orphan_seconds=600)
DAY = 86_400


@pytest.fixture
def graph(uri: str) -> GraphManifest:
    create(uri)
    return reopen(uri, manifest_policy=NEVER)


def collect_now(graph: GraphManifest, branch: str = "main", retention: VersionRetention = KEEP_THREE) -> int:
    line = graph.branch(branch)
    with line.lock:
        return collect_versions(line, list_versions(line), retention, REAL)


def versions_of(graph: GraphManifest, branch: str = "main") -> list[int]:
    return sorted(list_versions(graph.branch(branch)).files)


def rows_of(uri: str, branch: str, version: int) -> list[tuple[object, ...]]:
    """Every row of one version, read from its files by Lance alone, in a session that knows nothing."""
    place = f"{uri}/{table_dir(MANIFEST, physical_branch(branch))}"
    table = lance.dataset(place, version=version, session=lance.Session()).to_table()
    return sorted(zip(*(table.column(name).to_pylist() for name in ("object_id", "metadata")), strict=True))


def files_of(uri: str, part: str) -> set[str]:
    """The files of a part of the main line; the hint at the newest version is nobody's business."""
    return {each.name for each in Path(uri, MANIFEST, part).iterdir() if each.suffix != ".json"}


def age(file: Path, seconds: float) -> None:
    then = file.stat().st_mtime - seconds
    os.utime(file, (then, then))


class Witness:
    """Remembers the rows of every version it has seen, and compares them with what can be read later."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.seen: dict[tuple[str, int], list[tuple[object, ...]]] = {}

    def look(self, graph: GraphManifest) -> None:
        """Read every version that is there; one that was there before must have the same rows."""
        for branch in [each.name for each in graph.branches()]:
            for version in versions_of(graph, branch):
                rows = rows_of(self.uri, branch, version)
                incarnation = graph.branch(branch).incarnation or ""
                assert self.seen.setdefault((branch + incarnation, version), rows) == rows, (branch, version)


# -- every version that stays can be read, whatever happened -----------------------------------------------------------


class Life:
    """What may happen to a graph, one thing after the other, chosen by a seed."""

    STEPS = ("publish",) * 6 + ("compact", "collect", "collect", "branch", "branch", "drop", "tag", "reopen")

    def __init__(self, uri: str, seed: int) -> None:
        self.uri = uri
        self.world = SeededWorld(seed=seed)
        self.witness = Witness(uri)
        self.number = 0
        create(uri)
        self.reopen("main")

    def choose(self, options: Sequence[T]) -> T:
        return options[self.world.random_bits(32) % len(options)]

    def go_on(self) -> None:
        self.number += 1
        branch = self.choose([each.name for each in self.graph.branches()])
        getattr(self, self.choose(self.STEPS))(branch)
        self.witness.look(self.graph)

    def publish(self, branch: str) -> None:
        for _ in range(self.choose([1, 2, 3])):
            publish_next(self.graph, branch=branch)
            self.witness.look(self.graph)

    def compact(self, branch: str) -> None:
        compact(self.graph.branch(branch), ManifestPolicy(small_fragments=3, rows_per_fragment=24))

    def collect(self, branch: str) -> None:
        collect_now(self.graph, branch)

    def branch(self, source: str) -> None:
        commit = self.choose([None, *chain(self.graph, source)])
        self.graph.create_branch(f"b{self.number}", source=source, commit_id=commit)

    def drop(self, branch: str) -> None:
        children = [each for each in self.graph.branches() if each.parent == branch]
        if branch != "main" and not children:
            self.graph.delete_branch(branch)

    def tag(self, _: str) -> None:
        table = self.graph.branch().table
        table.handle.tags.create(f"t{self.number}", table.version)

    def reopen(self, _: str) -> None:
        self.graph = reopen(self.uri, manifest_policy=NEVER)


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(each, marks=pytest.mark.slow) for each in range(2, 40))])
def test_every_version_that_stays_reads_row_for_row_as_it_was_written(uri: str, seed: int) -> None:
    life = Life(uri, seed)
    for _ in range(25 if seed < 2 else 60):
        life.go_on()
    for branch in [each.name for each in life.graph.branches()]:
        collect_now(life.graph, branch)
        assert len(chain(reopen(uri), branch)) == len(chain(life.graph, branch))
    life.witness.look(life.graph)


def test_publishers_and_branch_makers_of_several_processes_collect_under_each_other(
    uri: str, graph: GraphManifest, hands: Hands
) -> None:
    graph.create_branch("side")
    publishes = [(works.publish_patiently, (uri, key, 8)) for key in (AUTHOR, PAPER)]
    aside = [(works.publish_patiently, (uri, AUTHOR, 12, "side"))]
    makers = [(works.create_branches, (uri, f"m{number}", 2)) for number in range(2)]
    outcomes = hands.all_at_once([*publishes, *aside, *makers])
    assert not [each.error for each in outcomes if each.error]
    after = reopen(uri)
    assert len(chain(after)) == 17
    assert len(chain(after, "side")) == 13
    assert len(after.branches()) == 6
    for branch in after.branches():
        for version in versions_of(after, branch.name):
            found = rows_of(uri, branch.name, version)
            assert len({row[0] for row in found}) == len(found)
        lance.dataset(f"{uri}/{table_dir(MANIFEST, physical_branch(branch.name))}").validate()


def test_a_copied_graph_whose_files_have_shuffled_times_keeps_what_its_versions_name(
    graph: GraphManifest, uri: str, tmp_path: Path
) -> None:
    for _ in range(12):
        publish_next(graph)
    copy = str(tmp_path / "copy")
    shutil.copytree(uri, copy)
    for number, file in enumerate(sorted(Path(copy, MANIFEST).rglob("*.lance"))):
        age(file, DAY * (number % 7))
    witness, copied = Witness(copy), reopen(copy, manifest_policy=NEVER)
    witness.look(copied)
    assert collect_now(copied) == 11
    witness.look(copied)
    assert len(chain(reopen(copy))) == 13


# -- what stays --------------------------------------------------------------------------------------------------------


def test_the_newest_stay_and_only_their_files(graph: GraphManifest, uri: str) -> None:
    for _ in range(10):
        publish_next(graph)
    newest = graph.branch().table.version
    assert collect_now(graph) == newest - 3
    assert versions_of(graph) == [newest - 2, newest - 1, newest]
    assert len(files_of(uri, "_versions")) == len(files_of(uri, "_transactions")) == 3
    named = {file for version in versions_of(graph) for file in graph.branch().names.of(version) or ()}
    assert {f"data/{each}" for each in files_of(uri, "data")} == named


def test_three_stay_however_few_are_asked_for(graph: GraphManifest, uri: str) -> None:
    """So that one of them is a publish: a compaction has no lock that a publish which slept would meet."""
    busy = reopen(uri, manifest_policy=replace(EAGER, versions=1, keep_versions=1))
    for _ in range(12):
        publish_next(busy)
    collect(busy.branch(), busy.manifest_policy, REAL)
    assert len(dataset_of(graph).versions()) == 3


def test_versions_younger_than_a_commit_may_take_stay_however_many_they_are(graph: GraphManifest, uri: str) -> None:
    for _ in range(10):
        publish_next(graph)
    settled = VersionRetention(versions=3, commit_grace_seconds=10, orphan_seconds=600)
    before = versions_of(graph)
    assert collect_now(graph, retention=settled) == 0
    for version in before[:5]:
        age(Path(uri, list_versions(graph.branch()).files[version].path), 60)
    assert collect_now(graph, retention=settled) == 5
    assert versions_of(graph) == before[5:]


def test_files_of_a_publish_that_is_under_way_stay_and_old_leftovers_go(graph: GraphManifest, uri: str) -> None:
    for _ in range(6):
        publish_next(graph)
    data = Path(uri, MANIFEST, "data")
    young, old, foreign = data / "young.lance", data / "old.lance", data / "notes.txt"
    for file in (young, old, foreign):
        file.write_bytes(b"x")
    age(young, 300)
    age(old, 700)
    age(foreign, DAY)
    collect_now(graph)
    assert (young.exists(), old.exists(), foreign.exists()) == (True, False, True)


def test_files_that_only_unknown_versions_named_go_when_they_are_old(graph: GraphManifest, uri: str) -> None:
    for _ in range(8):
        publish_next(graph)
    cold = reopen(uri, manifest_policy=NEVER)
    assert collect_now(cold) > 0
    assert len(files_of(uri, "data")) > 8, "who dropped them is not known, and they are young"
    for file in Path(uri, MANIFEST, "data").iterdir():
        age(file, 700)
    publish_next(cold)
    assert collect_now(cold) == 1
    named = {file for version in versions_of(cold) for file in cold.branch().names.of(version) or ()}
    assert {f"data/{each}" for each in files_of(uri, "data")} == named


def test_nothing_is_collected_while_a_branch_is_being_made(graph: GraphManifest) -> None:
    for _ in range(6):
        publish_next(graph)
    with acquire_branch_lease(graph.stores, "making a branch", REAL):
        assert collect_now(graph) == 0
    assert collect_now(graph) > 0


def test_tags_that_other_programs_made_with_lance_keep_their_versions(graph: GraphManifest, uri: str) -> None:
    publish_next(graph)
    tagged = graph.branch().table.version
    graph.branch().table.handle.tags.create("release", tagged)
    before = rows_of(uri, "main", tagged)
    for _ in range(8):
        publish_next(graph)
    collect_now(graph)
    assert tagged in versions_of(graph)
    assert rows_of(uri, "main", tagged) == before


def test_a_branch_keeps_what_it_has_through_a_parent_that_is_gone(graph: GraphManifest) -> None:
    graph.create_branch("parent")
    publish_next(graph, branch="parent")
    graph.create_branch("child", source="parent")
    forked = [each.parent_version for each in graph.branches()][1:]
    folder = Path(graph.stores.uri, MANIFEST, "_refs", "branches")
    for line in ("main", "parent"):
        assert ReferredVersions(line, graph.branch(line).incarnation).read(graph.stores.objects) <= {*forked}
    (folder / "parent.json").unlink()
    way = json.loads((folder / "child.json").read_text())["identifier"]["version_mapping"]
    assert ReferredVersions("main", None).read(graph.stores.objects) == {way[0][0]}


def test_nothing_is_collected_beside_a_reference_that_cannot_be_read(graph: GraphManifest, uri: str) -> None:
    for _ in range(6):
        publish_next(graph)
    before = versions_of(graph)
    folder = Path(uri, MANIFEST, "_refs", "branches")
    folder.mkdir(parents=True)
    (folder / "odd.json").write_text("{}")
    with pytest.raises(StoreError, match="does not say what it stands on"):
        collect_now(graph)
    assert versions_of(graph) == before


def test_files_stay_when_the_version_that_a_branch_stands_on_is_not_there(graph: GraphManifest, uri: str) -> None:
    graph.create_branch("b")
    for _ in range(6):
        publish_next(graph)
    forked = graph.branches()[1].parent_version
    assert forked is not None
    Path(uri, list_versions(graph.branch()).files[forked].path).unlink()
    before = files_of(uri, "data")
    assert collect_now(graph) > 0
    assert files_of(uri, "data") == before


# -- when, and at what cost --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 2])
def test_a_collection_that_dies_half_way_leaves_every_version_whole(graph: GraphManifest, uri: str, step: int) -> None:
    for _ in range(8):
        publish_next(graph)
    witness = Witness(uri)
    witness.look(graph)
    failpoints.arm(f"store.write=raise@{step}")
    try:
        with pytest.raises(InjectedFaultError):
            collect_now(graph)
    finally:
        failpoints.arm("")
    witness.look(graph)
    publish_next(graph)
    collect_now(graph)
    witness.look(graph)
    assert len(chain(reopen(uri))) == 10


def test_a_process_that_has_published_itself_reads_no_version_to_collect(graph: GraphManifest) -> None:
    for _ in range(12):
        publish_next(graph)
    with counting() as counts:
        assert collect_now(graph) > 0
    assert (counts.table_opens, counts.object_lists, counts.object_reads, counts.object_deletes) == (0, 5, 1, 2)


@pytest.mark.s3
def test_on_s3_a_collection_is_eight_requests_however_many_versions_go(s3_server: Seaweed, s3_uri: str) -> None:
    create(s3_uri)
    with CountingProxy(s3_server.endpoint) as proxy:
        place = parse_location(s3_uri, REAL, storage_options={"aws_endpoint": proxy.endpoint})
        graph = GraphManifest(place, world=REAL, manifest_policy=NEVER)
        for _ in range(30):
            publish_next(graph)
        proxy.reset()
        assert collect_now(graph) == 29
        assert dict(proxy.counts) == {"GET": 1, "LIST": 5, "POST": 2}
    cold = reopen(s3_uri)
    assert len(versions_of(cold)) == 3
    assert len(cold.stores.objects.list(f"{MANIFEST}/data")) == len(names_in(cold.branch().table)) + 2
    assert len(chain(cold)) == 31


def test_a_collection_is_tried_again_only_when_there_is_room_for_it(uri: str) -> None:
    create(uri)
    graph = reopen(uri, manifest_policy=NEVER)
    policy = ManifestPolicy(versions=10, keep_versions=4, commit_grace_seconds=0)
    for _ in range(14):
        publish_next(graph)
    line = graph.branch()
    assert collect(line, policy, REAL) > 0
    with counting() as counts:
        assert collect(line, policy, REAL) == 0
    assert counts.object_lists == 0
    for _ in range(7):
        publish_next(graph)
    assert collect(line, policy, REAL) > 0
    assert DEFAULT_MANIFEST_POLICY.keep_versions < DEFAULT_MANIFEST_POLICY.versions


def test_many_publishes_leave_few_files(uri: str) -> None:
    create(uri)
    graph = reopen(uri, manifest_policy=EAGER)
    for _ in range(60):
        publish_next(graph)
    most = EAGER.versions + 3 * EAGER.small_fragments
    assert len(files_of(uri, "_versions")) <= most
    assert len(files_of(uri, "_transactions")) <= most + 2
    assert len(files_of(uri, "data")) <= 4 * most
