"""Old graphs, v1 to v3: read as they are without a write, migrated in place without a loss."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

from manifest.graphs import (
    AUTHOR,
    EAGER,
    PAPER,
    WROTE,
    chain,
    create,
    dataset_of,
    manifest_rows,
    publish_next,
    reopen,
    request,
    tree,
    version,
)
from manifest.old_graphs import RUNS, OldGraph, build, init
from omnigraph import failpoints
from omnigraph.errors import CommitConflict, ManifestCorrupt, MigrationFailed, OmniGraphError
from omnigraph.manifest import upgrade
from omnigraph.manifest.branch_manifest import BranchManifest
from omnigraph.manifest.layout import FORMAT_VERSION_KEY, read_format_version
from omnigraph.manifest.rows import SCHEMA
from omnigraph.manifest.upgrade import STEPS, bring_up_to_date, check_steps
from omnigraph.storage.tables.immediate import set_schema_metadata

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from omnigraph.manifest.graph_manifest import GraphManifest

every_version = pytest.mark.parametrize("stamp", [1, 2, 3], ids=["v1", "v2", "v3"])


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    failpoints.arm("")


def require_true_history(graph: GraphManifest, old: OldGraph, branch: str) -> None:
    """Every commit with all its facts and its snapshot, and the newest state, as the old release recorded them."""
    lineage = graph.lineage(branch)
    for expected in old.history[branch]:
        commit = lineage[expected.id]
        found = (commit.manifest_version, commit.created_us, commit.parent, commit.merged_parent, commit.actor)
        assert found == (
            expected.manifest_version,
            expected.created_at,
            expected.parent,
            expected.merged_parent,
            expected.actor,
        )
        assert commit.branch == (expected.branch or "main")
        snapshot = graph.snapshot_of(expected.id)
        assert {entry.table_key: (entry.version, entry.branch) for entry in snapshot} == expected.state


def require_only_true_history(graph: GraphManifest, old: OldGraph) -> None:
    for branch, commits in old.history.items():
        require_true_history(graph, old, branch)
        assert set(graph.lineage(branch).commits) == {each.id for each in commits}
        head = graph.lineage(branch).head
        assert head is not None
        assert head.id == commits[-1].id
        assert graph.snapshot(branch).commit_id == head.id
        newest = {entry.table_key: (entry.version, entry.branch) for entry in graph.snapshot(branch)}
        assert newest == commits[-1].state


def stamp_of(graph: GraphManifest, branch: str = "main") -> str | None:
    metadata = dataset_of(graph, branch).schema_metadata or {}
    found: str | None = metadata.get(FORMAT_VERSION_KEY)
    return found


def lineage_rows(graph: GraphManifest, branch: str = "main") -> dict[str, dict[str, object]]:
    rows = manifest_rows(graph, branch)
    return {key: row for key, row in rows.items() if str(row["object_type"]).startswith("graph_")}


# -- reading -----------------------------------------------------------------------------------------------------------


@every_version
def test_a_read_only_open_tells_the_true_history_of_every_branch_and_writes_nothing(tmp_path: Path, stamp: int) -> None:
    old = build(tmp_path / "g", stamp)
    before = tree(tmp_path)
    graph = reopen(str(old.root), read_only=True)
    require_only_true_history(graph, old)
    assert [each.name for each in graph.branches()] == ["main", "feature"]
    assert tree(tmp_path) == before


# -- migrating ---------------------------------------------------------------------------------------------------------


@every_version
def test_a_read_write_open_migrates_main_and_keeps_its_history(tmp_path: Path, stamp: int) -> None:
    old = build(tmp_path / "g", stamp)
    graph = reopen(str(old.root))
    assert stamp_of(graph) == "4"
    assert stamp_of(graph, "feature") == (None if stamp == 1 else str(stamp)), "a branch waits for its first write"
    for each in (graph, reopen(str(old.root)), reopen(str(old.root), read_only=True)):
        require_only_true_history(each, old)
    key = dataset_of(graph).schema.field("object_id").metadata
    assert key == {b"lance-schema:unenforced-primary-key": b"true"}


@every_version
def test_the_rows_are_one_per_commit_and_one_head_and_nothing_else_changes(tmp_path: Path, stamp: int) -> None:
    old = build(tmp_path / "g", stamp)
    before = manifest_rows(reopen(str(old.root), read_only=True))
    graph = reopen(str(old.root))
    rows = manifest_rows(graph)
    empty = {"location": None, "base_objects": None, "table_key": "", "row_count": None}
    for commit in old.history["main"]:
        facts = {
            "parent_commit_id": commit.parent,
            "merged_parent_commit_id": commit.merged_parent,
            "actor_id": commit.actor,
            "created_at": commit.created_at,
        }
        metadata = {name: value for name, value in facts.items() if value is not None}
        assert rows.pop(commit.id) == {
            **empty,
            "object_id": commit.id,
            "object_type": "graph_commit",
            "metadata": json.dumps(metadata, separators=(",", ":"), ensure_ascii=False),
            "table_version": commit.manifest_version,
            "table_branch": commit.branch,
        }
    newest = old.history["main"][-1]
    assert rows.pop("graph_head:main") == {
        **empty,
        "object_id": "graph_head:main",
        "object_type": "graph_head",
        "metadata": f'{{"head_commit_id":"{newest.id}","parent_commit_id":"{newest.parent}"}}',
        "table_version": None,
        "table_branch": None,
    }
    assert rows == before


@pytest.mark.parametrize(("stamp", "commits"), [(1, 5), (2, 3), (3, 2)])
def test_main_costs_no_more_manifest_versions_than_the_steps_need(tmp_path: Path, stamp: int, commits: int) -> None:
    old = build(tmp_path / "g", stamp)
    before = lance.dataset(old.manifest).version
    assert dataset_of(reopen(str(old.root))).version == before + commits
    assert dataset_of(reopen(str(old.root))).version == before + commits, "a second open has nothing to do"


@every_version
def test_the_legacy_datasets_stay_as_they_were(tmp_path: Path, stamp: int) -> None:
    old = build(tmp_path / "g", stamp)
    legacy = [each for each in tree(old.root) if each.startswith("_graph_")]
    before = {name: data for name, data in tree(old.root).items() if name in legacy}
    publish_next(reopen(str(old.root)), branch="feature")
    assert {name: data for name, data in tree(old.root).items() if name.startswith("_graph_")} == before


@every_version
def test_a_branch_is_migrated_by_its_first_publish_with_its_own_commits(tmp_path: Path, stamp: int) -> None:
    old = build(tmp_path / "g", stamp)
    graph = reopen(str(old.root))
    main = manifest_rows(graph)
    done = publish_next(graph, WROTE, branch="feature")
    assert stamp_of(graph, "feature") == "4"
    assert done.commit.parent == old.history["feature"][-1].id
    assert set(lineage_rows(graph, "feature")) == {
        *(each.id for each in old.history["feature"]),
        done.commit.id,
        "graph_head:feature",
    }
    assert manifest_rows(graph) == main, "main has none of the branch's commits"
    for each in (graph, reopen(str(old.root))):
        require_true_history(each, old, "feature")
        assert chain(each, "feature")[0] == done.commit.id


@every_version
def test_every_old_snapshot_outlives_compaction_and_collection(tmp_path: Path, stamp: int) -> None:
    old = build(tmp_path / "g", stamp)
    graph = reopen(str(old.root), manifest_policy=EAGER)
    for turn in range(12):
        publish_next(graph, (AUTHOR, PAPER)[turn % 2], branch=("main", "feature")[turn // 6])
    for each in (graph, reopen(str(old.root))):
        for branch in old.history:
            require_true_history(each, old, branch)


def test_staging_branches_are_swept_with_their_files(tmp_path: Path) -> None:
    old = build(tmp_path / "g", 2)
    assert set(RUNS) < set(lance.dataset(old.manifest).branches.list())
    reopen(str(old.root))
    assert set(lance.dataset(old.manifest).branches.list()) == {"feature"}
    assert not any((old.root / "__manifest" / "tree" / name).exists() for name in RUNS)


def test_the_merge_base_is_found_across_migrated_and_new_commits(tmp_path: Path) -> None:
    old = build(tmp_path / "g", 3)
    graph = reopen(str(old.root))
    merged = old.history["feature"][2]
    assert graph.merge_bases("feature", "main").tips[0] == graph.lineage("feature")[merged.id]
    publish_next(graph, WROTE, branch="feature")
    publish_next(graph, PAPER)
    assert graph.merge_bases("feature", "main").tips[0] == graph.lineage("feature")[merged.id]


def test_a_branch_can_be_made_from_a_commit_that_was_migrated(tmp_path: Path) -> None:
    old = build(tmp_path / "g", 3)
    graph = reopen(str(old.root))
    then = old.history["main"][2]
    graph.create_branch("then", commit_id=then.id)
    for each in (graph, reopen(str(old.root))):
        assert {entry.table_key: (entry.version, entry.branch) for entry in each.snapshot("then")} == then.state
        assert chain(each, "then") == [commit.id for commit in old.history["main"][:3]][::-1]
    publish_next(graph, branch="then")


def test_a_branch_can_be_made_from_a_branch_that_was_not_migrated_yet(tmp_path: Path) -> None:
    old = build(tmp_path / "g", 3)
    graph = reopen(str(old.root))
    graph.create_branch("next", source="feature")
    assert chain(graph, "next") == chain(graph, "feature")
    publish_next(graph, branch="next")
    require_true_history(reopen(str(old.root)), old, "feature")
    assert len(chain(reopen(str(old.root)), "next")) == 5


def test_an_old_graph_with_a_single_commit_migrates_too(tmp_path: Path) -> None:
    old = OldGraph(tmp_path / "g", 3)
    init(old)
    require_only_true_history(reopen(str(old.root)), old)


# -- what must not be taken for something else -------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["commits", "actors"])
@pytest.mark.parametrize("damage", ["truncated version", "lost data"])
def test_a_legacy_dataset_that_is_there_and_cannot_be_read_aborts_loudly(
    tmp_path: Path, which: str, damage: str
) -> None:
    old = build(tmp_path / "g", 3)
    folder = old.root / f"_graph_{'commits' if which == 'commits' else 'commit_actors'}.lance"
    place = "_versions/*.manifest" if damage == "truncated version" else "data/*"
    chosen = min(folder.glob(place))
    whole = chosen.read_bytes()
    chosen.write_bytes(whole[: len(whole) // 2])
    if damage == "lost data":
        chosen.unlink()
    before = tree(old.root)
    for read_only in (True, False):
        with pytest.raises(OmniGraphError, match="_graph_commit"):
            reopen(str(old.root), read_only=read_only)
    assert tree(old.root) == before, "nothing is stamped"
    chosen.write_bytes(whole)
    require_only_true_history(reopen(str(old.root)), old)


def test_a_passing_failure_while_reading_the_old_lineage_stamps_nothing(tmp_path: Path) -> None:
    old = build(tmp_path / "g", 3)
    before = tree(old.root)
    failpoints.arm("migration.legacy_open=raise")
    with pytest.raises(OSError, match="injected failure"):
        reopen(str(old.root))
    assert tree(old.root) == before
    require_only_true_history(reopen(str(old.root)), old)


def test_an_absent_commit_dataset_means_no_history_and_absent_actors_mean_no_actors(tmp_path: Path) -> None:
    old = build(tmp_path / "g", 3)
    (old.root / "_graph_commit_actors.lance").rename(tmp_path / "actors")
    graph = reopen(str(old.root))
    assert {commit.actor for commit in graph.lineage().commits.values()} == {None}
    assert len(chain(graph)) == 5
    bare = build(tmp_path / "bare", 3)
    (bare.root / "_graph_commits.lance").rename(tmp_path / "commits")
    graph = reopen(str(bare.root))
    assert graph.lineage().commits == {}
    assert stamp_of(graph) == "4"
    first, second = publish_next(graph).commit, publish_next(graph).commit
    assert chain(graph) == [second.id, first.id]


def test_a_branch_whose_old_history_is_missing_says_so_and_can_be_deleted(tmp_path: Path) -> None:
    old = build(tmp_path / "g", 3)
    lance.dataset(old.commits).branches.delete("feature")
    graph = reopen(str(old.root))
    assert len(chain(graph)) == 5
    before = tree(old.root / "__manifest")
    for attempt in (graph.snapshot, graph.lineage):
        with pytest.raises(MigrationFailed, match="'feature'"):
            attempt("feature")
    with pytest.raises(MigrationFailed, match="delete the branch"):
        graph.publish(request(version(AUTHOR, 9, branch="feature")), branch="feature")
    assert tree(old.root / "__manifest") == before
    graph.delete_branch("feature")
    assert [each.name for each in graph.branches()] == ["main"]


def test_a_v4_graph_needs_no_legacy_reference_at_all(tmp_path: Path) -> None:
    old = build(tmp_path / "g", 3)
    graph = reopen(str(old.root))
    publish_next(graph, branch="feature")
    lance.dataset(old.commits).branches.delete("feature")
    assert len(chain(reopen(str(old.root)), "feature")) == 5


def test_another_primary_key_is_not_overwritten(tmp_path: Path) -> None:
    fields = [pa.field(each.name, each.type, each.nullable) for each in SCHEMA]
    fields[5] = fields[5].with_metadata({"lance-schema:unenforced-primary-key": "true"})
    lance.write_dataset(pa.schema(fields).empty_table(), str(tmp_path / "g" / "__manifest"), enable_stable_row_ids=True)
    before = tree(tmp_path)
    with pytest.raises(MigrationFailed, match="table_key"):
        reopen(str(tmp_path / "g"))
    assert tree(tmp_path) == before


# -- the dispatcher ----------------------------------------------------------------------------------------------------


def test_the_registered_steps_lead_from_the_floor_to_the_current_version() -> None:
    check_steps(STEPS)


@pytest.mark.parametrize(
    "steps",
    [
        {1: STEPS[1], 2: STEPS[2]},
        {2: STEPS[2], 3: STEPS[3]},
        {**STEPS, 4: STEPS[3]},
        {0: STEPS[1], **STEPS},
    ],
    ids=["last missing", "first missing", "one too many", "left over"],
)
def test_a_missing_or_left_over_step_fails(steps: dict[int, object]) -> None:
    with pytest.raises(AssertionError, match="need one"):
        check_steps(steps)  # type: ignore[arg-type]


def test_a_raised_floor_that_forgets_to_delete_its_step_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrade, "MINIMUM", 2)
    with pytest.raises(AssertionError):
        check_steps(STEPS)
    check_steps({2: STEPS[2], 3: STEPS[3]})


def test_a_current_graph_is_not_written_to_by_an_open(tmp_path: Path) -> None:
    create(str(tmp_path / "g"))
    before = tree(tmp_path)
    reopen(str(tmp_path / "g")).snapshot()
    assert tree(tmp_path) == before


def test_a_step_that_finds_another_migrator_further_on_never_stamps_past_work_that_is_not_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other has stamped v3 while our own step to v3 lost: lineage must still be carried over before the 4."""
    old = build(tmp_path / "g", 2)
    line = BranchManifest(reopen(str(old.root), read_only=True).stores, "main")

    def overtaken(mine: BranchManifest) -> None:
        upgrade.delete_staging_branches(mine)
        if read_format_version(mine.table) == 2:
            set_schema_metadata(mine.table, {FORMAT_VERSION_KEY: "3"})
            raise CommitConflict("another was first")

    monkeypatch.setitem(STEPS, 2, overtaken)
    bring_up_to_date(line)
    require_only_true_history(reopen(str(old.root)), old)


def test_a_line_that_was_read_before_others_migrated_published_and_collected_catches_up(tmp_path: Path) -> None:
    old = build(tmp_path / "g", 3)
    behind = BranchManifest(reopen(str(old.root), read_only=True).stores, "main")
    busy = reopen(str(old.root), manifest_policy=EAGER)
    for _ in range(20):
        publish_next(busy)
    bring_up_to_date(behind)
    assert behind.format_version == 4
    assert len(behind.state.commits) == 25


def test_a_corrupt_row_in_the_old_lineage_is_told(tmp_path: Path) -> None:
    old = build(tmp_path / "g", 3)
    lance.write_dataset(pa.table({"graph_commit_id": ["x"]}), str(old.root / "_graph_commits.lance"), mode="overwrite")
    before = tree(old.root / "__manifest")
    with pytest.raises((MigrationFailed, ManifestCorrupt), match="_graph_commits"):
        reopen(str(old.root))
    assert tree(old.root / "__manifest") == before
