"""Branches: what they may be called, what they are made from, when they can go, and that no two are ever confused."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

from manifest.graphs import (
    AUTHOR,
    AUTHORS,
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
    version,
)
from omnigraph.errors import BranchExists, BranchInUse, BranchNotFound, BranchReplaced, CommitRejected, NotFound
from omnigraph.manifest.branch_lease import fork_table
from omnigraph.manifest.layout import MAIN, MANIFEST
from omnigraph.storage.tables.staging import commit_staged, stage_append

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.publisher import Published


@pytest.fixture
def graph(graph_uri: str) -> GraphManifest:
    return create(graph_uri)


@pytest.fixture
def local(uri: str) -> GraphManifest:
    return create(uri)


def names(graph: GraphManifest) -> list[str]:
    return [each.name for each in graph.branches()]


def versions(graph: GraphManifest, branch: str = MAIN) -> dict[str, int]:
    return {entry.table_key: entry.version for entry in graph.snapshot(branch)}


def write_author(graph: GraphManifest, branch: str, name: str) -> Published:
    """A real first write on a branch: fork the table, add a row, publish."""
    entry = graph.snapshot(branch)[AUTHOR]
    table = graph.stores.tables.open(entry.pin)
    if entry.branch != branch:
        table = fork_table(graph.stores, entry.path, branch, parent=table)
    rows = pa.table({"id": [name], "born": [None], "handle": [name]}, schema=table.schema)
    landed = commit_staged(stage_append(table, rows))
    return graph.publish(
        request(version(AUTHOR, landed.version, rows=landed.table.count_rows(), branch=branch)), branch=branch
    )


def authors(graph: GraphManifest, branch: str) -> list[str]:
    return sorted(graph.stores.tables.open(graph.snapshot(branch)[AUTHOR].pin).read(["id"])["id"].to_pylist())


# -- names and the list ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["b", "team/x", "a/b/c", "v1.2", "x_y-z", "9", ".hidden", "-", "Main", "tree", "x" * 200]
)
def test_names_that_a_branch_can_have(local: GraphManifest, name: str) -> None:
    local.create_branch(name)
    assert names(local) == [MAIN, name]
    assert len(chain(local, name)) == 1
    publish_next(local, branch=name)
    local.delete_branch(name)
    assert names(local) == [MAIN]


@pytest.mark.parametrize(("first", "second"), [("a", "a/b"), ("a/b", "a"), ("a/b/c", "a/b"), ("a", "a")])
def test_no_name_lies_in_the_path_of_another(local: GraphManifest, first: str, second: str) -> None:
    local.create_branch(first)
    with pytest.raises(BranchExists, match=first):
        local.create_branch(second)
    assert names(local) == [MAIN, first]


def test_names_that_only_begin_alike_stand_beside_each_other(local: GraphManifest) -> None:
    for name in ("a/b", "a/bc", "ab", "a-b"):
        local.create_branch(name)
    assert names(local) == [MAIN, "a-b", "a/b", "a/bc", "ab"]


def test_the_list_tells_where_each_branch_was_made_and_hides_the_schema_lock(graph: GraphManifest) -> None:
    graph.create_branch("b")
    publish_next(graph, branch="b")
    graph.create_branch("c", source="b")
    dataset_of(graph).create_branch("__schema_apply_lock__")
    found = {each.name: each for each in graph.branches()}
    assert list(found) == [MAIN, "b", "c"]
    assert (found["b"].parent, found["b"].parent_version) == (MAIN, 2)
    assert (found["c"].parent, found["c"].parent_version) == ("b", 3)
    assert found["b"].incarnation != found["c"].incarnation


def test_a_branch_that_is_not_there_is_told_by_name(graph: GraphManifest) -> None:
    for attempt in (graph.snapshot, graph.lineage, graph.delete_branch):
        with pytest.raises(BranchNotFound, match="'nowhere'"):
            attempt("nowhere")
    with pytest.raises(BranchNotFound, match="'nowhere'"):
        graph.create_branch("b", source="nowhere")
    with pytest.raises(BranchNotFound, match="'nowhere'"):
        graph.publish(request(), branch="nowhere")
    assert names(graph) == [MAIN]


def test_a_read_only_graph_makes_and_removes_no_branch(local: GraphManifest, uri: str) -> None:
    local.create_branch("b")
    reader = reopen(uri, read_only=True)
    for attempt in (reader.create_branch, reader.delete_branch):
        with pytest.raises(CommitRejected, match="read-only"):
            attempt("b")


# -- what a branch is made from ----------------------------------------------------------------------------------------


def test_a_branch_begins_as_its_parent_is_and_then_goes_its_own_way(graph: GraphManifest) -> None:
    publish_next(graph, AUTHOR)
    graph.create_branch("b")
    assert versions(graph, "b") == versions(graph)
    publish_next(graph, PAPER)
    publish_next(graph, WROTE, branch="b")
    assert versions(graph) == {AUTHOR: 2, PAPER: 2, WROTE: 1}
    assert versions(graph, "b") == {AUTHOR: 2, PAPER: 1, WROTE: 2}
    assert graph.merge_bases("b", MAIN).tips[0] == graph.merge_bases(MAIN, "b").tips[0]
    assert graph.merge_bases("b", MAIN).tips[0] == graph.lineage("b").newest_first()[1]


def test_a_branch_of_a_branch_has_the_history_of_both(graph: GraphManifest) -> None:
    graph.create_branch("b")
    on_b = publish_next(graph, AUTHOR, branch="b").commit.id
    graph.create_branch("c", source="b")
    on_c = publish_next(graph, PAPER, branch="c").commit.id
    assert chain(graph, "c")[:2] == [on_c, on_b]
    assert versions(graph, "c") == {AUTHOR: 2, PAPER: 2, WROTE: 1}
    assert graph.snapshot("c")[AUTHOR].branch == "b"


@pytest.mark.parametrize("policy", [None, EAGER], ids=["versions kept", "versions collected"])
def test_a_branch_from_any_commit_is_the_graph_as_it_was_then(graph_uri: str, policy: object) -> None:
    create(graph_uri)
    graph = reopen(graph_uri, manifest_policy=EAGER if policy else None)
    published = [publish_next(graph, (AUTHOR, PAPER)[turn % 2]) for turn in range(12)]
    if policy:
        assert len(dataset_of(graph).versions()) < 10
    for turn in (0, 5, 10, 11):
        name = f"from-{turn}"
        then = published[turn]
        graph.create_branch(name, commit_id=then.commit.id)
        for reader in (graph, reopen(graph_uri, read_only=True)):
            assert reader.snapshot(name).tables == then.snapshot.tables
            assert chain(reader, name) == chain(graph)[11 - turn :]
        done = publish_next(graph, WROTE, branch=name)
        assert done.commit.parent == then.commit.id
        assert graph.merge_bases(name, MAIN).tips[0] == then.commit
    assert len(chain(graph)) == 13


def test_a_branch_from_a_commit_of_another_branch(graph: GraphManifest) -> None:
    graph.create_branch("b")
    first = publish_next(graph, branch="b").commit.id
    publish_next(graph, branch="b")
    graph.create_branch("c", commit_id=first)
    assert chain(graph, "c") == chain(graph, "b")[1:]
    with pytest.raises(NotFound, match="01NOSUCHCOMMIT"):
        graph.create_branch("d", commit_id="01NOSUCHCOMMIT")


# -- going ------------------------------------------------------------------------------------------------------------


def test_main_stays(graph: GraphManifest) -> None:
    with pytest.raises(BranchInUse, match="main cannot be deleted"):
        graph.delete_branch(MAIN)


def test_a_branch_with_branches_on_it_stays_until_they_are_gone(graph: GraphManifest) -> None:
    graph.create_branch("b")
    graph.create_branch("c", source="b")
    with pytest.raises(BranchInUse, match="c on it"):
        graph.delete_branch("b")
    graph.delete_branch("c")
    graph.delete_branch("b")
    assert names(graph) == [MAIN]


def test_a_branch_with_others_below_its_path_stays(local: GraphManifest) -> None:
    """Only another program could have made such a pair."""
    local.create_branch("a/b")
    dataset_of(local).create_branch("a")
    with pytest.raises(BranchInUse, match="a/b on it"):
        local.delete_branch("a")
    assert names(local) == [MAIN, "a", "a/b"]


def test_a_branch_whose_tables_another_reads_stays(graph: GraphManifest) -> None:
    graph.create_branch("b")
    graph.create_branch("other")
    graph.publish(request(version(AUTHOR, 2, branch="b")), branch="other")
    with pytest.raises(BranchInUse, match=f"'other' still reads {AUTHOR}"):
        graph.delete_branch("b")
    graph.publish(request(version(AUTHOR, 3, branch="other")), branch="other")
    graph.delete_branch("b")


def test_deleting_removes_the_branchs_own_table_forks_and_nobody_elses(graph: GraphManifest) -> None:
    for name in ("b", "c"):
        graph.create_branch(name)
        write_author(graph, name, name)
    objects = graph.stores.objects
    graph.delete_branch("b")
    assert not objects.exists(f"{AUTHORS}/tree/b")
    assert not objects.exists(f"{MANIFEST}/tree/b")
    assert authors(graph, "c") == ["c"]
    assert authors(graph, MAIN) == []


# -- another of the same name ------------------------------------------------------------------------------------------


def test_a_warm_reader_sees_the_new_branch_of_an_old_name_and_no_trace_of_the_old(graph_uri: str) -> None:
    graph = create(graph_uri)
    reader = reopen(graph_uri, read_only=True)
    graph.create_branch("b")
    write_author(graph, "b", "old")
    assert authors(reader, "b") == ["old"]
    graph.delete_branch("b")
    with pytest.raises(BranchNotFound):
        reader.snapshot("b")
    graph.create_branch("b")
    assert reader.snapshot("b").tables == graph.snapshot().tables
    write_author(graph, "b", "new")
    for each in (reader, graph, reopen(graph_uri)):
        assert authors(each, "b") == ["new"]
        assert len(chain(each, "b")) == 2


def test_a_warm_reader_that_never_looked_between_is_not_confused_either(graph_uri: str) -> None:
    graph = create(graph_uri)
    reader = reopen(graph_uri, read_only=True)
    graph.create_branch("b")
    write_author(graph, "b", "old")
    assert authors(reader, "b") == ["old"]
    graph.delete_branch("b")
    graph.create_branch("b")
    write_author(graph, "b", "new")
    assert authors(reader, "b") == ["new"]


def test_a_warm_writer_is_told_once_and_nothing_is_written(graph_uri: str) -> None:
    graph = create(graph_uri)
    writer = reopen(graph_uri)
    graph.create_branch("b")
    publish_next(writer, branch="b")
    publish_next(writer, branch="b")
    graph.delete_branch("b")
    graph.create_branch("b")
    before = manifest_rows(graph, "b")
    with pytest.raises(BranchReplaced, match="made anew"):
        writer.publish(request(version(AUTHOR, 4, branch="b")), branch="b")
    assert manifest_rows(graph, "b") == before
    writer.publish(request(version(AUTHOR, 2, branch="b")), branch="b")
    assert len(chain(graph, "b")) == 2


def test_a_warm_writer_on_a_deleted_branch_does_not_bring_it_back(graph: GraphManifest, graph_uri: str) -> None:
    writer = reopen(graph_uri)
    graph.create_branch("b")
    publish_next(writer, branch="b")
    graph.delete_branch("b")
    with pytest.raises(BranchNotFound):
        writer.publish(request(version(AUTHOR, 3, branch="b")), branch="b")
    assert names(graph) == [MAIN]
    assert not graph.stores.objects.exists(f"{MANIFEST}/tree/b")


# -- files without a reference -----------------------------------------------------------------------------------------


def test_the_tree_of_a_maker_that_died_is_cleared_when_the_name_is_wanted(local: GraphManifest, tmp_path: Path) -> None:
    """As Lance leaves it when it is killed between copying the branch and writing its reference."""
    local.create_branch("b")
    publish_next(local, branch="b")
    orphan = tmp_path / "orphan"
    shutil.copytree(tmp_path / "g" / MANIFEST / "tree" / "b", orphan)
    local.delete_branch("b")
    shutil.copytree(orphan, tmp_path / "g" / MANIFEST / "tree" / "b")
    assert names(local) == [MAIN]
    with pytest.raises(BranchNotFound):
        local.snapshot("b")
    local.create_branch("b")
    assert len(chain(local, "b")) == 1
    publish_next(local, branch="b")


def test_orphans_below_a_wanted_name_go_with_it(local: GraphManifest, tmp_path: Path) -> None:
    local.create_branch("a/b")
    orphan = tmp_path / "orphan"
    shutil.copytree(tmp_path / "g" / MANIFEST / "tree" / "a", orphan)
    local.delete_branch("a/b")
    shutil.copytree(orphan, tmp_path / "g" / MANIFEST / "tree" / "a", dirs_exist_ok=True)
    local.create_branch("a")
    local.delete_branch("a")
    local.create_branch("a/b")
    assert len(chain(local, "a/b")) == 1


def test_a_fork_of_a_table_that_nobody_published_is_replaced(local: GraphManifest) -> None:
    local.create_branch("b")
    table = local.stores.tables.open(local.snapshot("b")[AUTHOR].pin)
    lost = fork_table(local.stores, AUTHORS, "b", parent=table)
    rows = pa.table({"id": ["lost"], "born": [None], "handle": ["lost"]}, schema=table.schema)
    commit_staged(stage_append(lost, rows))
    write_author(local, "b", "kept")
    assert authors(local, "b") == ["kept"]


def test_a_missing_reference_file_takes_the_branch_away_and_leaves_main_alone(local: GraphManifest, uri: str) -> None:
    local.create_branch("b")
    publish_next(local, branch="b")
    lance.dataset(f"{uri}/{MANIFEST}").branches.delete("b")
    assert names(local) == [MAIN]
    assert len(chain(local)) == 1
    publish_next(local)
