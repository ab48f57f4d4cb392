"""What stands on the disk: paths, columns, and every row of the format's worked example, value by value.

One deviation is wanted: init makes the stamp a part of the first commit, so that no moment exists in which the manifest
could be taken for a v1 one. The live version after init is therefore 2 and not 3; genesis pins version 1 all the same.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from manifest.graphs import (
    AUTHOR,
    AUTHORS,
    PAPER,
    PAPERS,
    WRITINGS,
    WROTE,
    create,
    dataset_of,
    manifest_rows,
    request,
    version,
)
from omnigraph.catalog.canonical import hash64
from omnigraph.errors import CommitRejected, ExpectedVersionMismatch, InvalidInput
from omnigraph.manifest.layout import table_path
from omnigraph.storage.lance.paths import branch_reference_file, version_file
from omnigraph.storage.tables.table import Pin

if TYPE_CHECKING:
    from omnigraph.manifest.graph_manifest import GraphManifest

NOTHING = {"location": None, "metadata": None, "base_objects": None}


@pytest.fixture
def graph(graph_uri: str) -> GraphManifest:
    return create(graph_uri)


def head_of(graph: GraphManifest, branch: str = "main") -> str:
    head = graph.lineage(branch).head
    assert head is not None
    return head.id


def metadata_of(row: dict[str, object]) -> dict[str, object]:
    found: dict[str, object] = json.loads(str(row["metadata"]))
    return found


def test_table_paths_are_the_fnv_hashes_of_the_type_names() -> None:
    assert f"{hash64('a'):016x}" == "af63dc4c8601ec8c"
    assert [table_path(key) for key in (AUTHOR, PAPER, WROTE)] == [AUTHORS, PAPERS, WRITINGS]
    assert table_path("node:Tag") == "nodes/6ce0cb19e201b153"
    assert table_path("node:Writer") == "nodes/12c5238602e8012a"


@pytest.mark.parametrize("key", ["Author", "node:", "vertex:Author", ""])
def test_what_is_not_a_table_key_is_refused_by_name(key: str) -> None:
    with pytest.raises(InvalidInput, match=repr(key)):
        table_path(key)


def test_version_files_count_down_and_branches_lie_below_tree() -> None:
    assert version_file(AUTHORS, None, 1) == f"{AUTHORS}/_versions/18446744073709551614.manifest"
    assert version_file(AUTHORS, "feature", 5) == f"{AUTHORS}/tree/feature/_versions/18446744073709551610.manifest"
    assert branch_reference_file("__manifest", "team/x") == "__manifest/_refs/branches/team%2Fx.json"


def test_init_leaves_the_schema_files_the_tables_and_the_manifest_and_nothing_else(graph: GraphManifest) -> None:
    names = graph.stores.objects.list_names()
    assert {name for name in names if "/" not in name} == {"_schema.pg", "_schema.ir.json", "__schema_state.json"}
    tables = {"/".join(name.split("/")[:2]) for name in names if name.startswith(("nodes/", "edges/"))}
    assert tables == {AUTHORS, PAPERS, WRITINGS}
    assert {name.split("/")[0] for name in names if "/" in name} == {"__manifest", "nodes", "edges"}


def test_the_manifest_has_the_nine_columns_with_strict_types_and_a_primary_key(graph: GraphManifest) -> None:
    schema = dataset_of(graph).schema
    assert schema.names == [
        *("object_id", "object_type", "location", "metadata", "base_objects"),
        *("table_key", "table_version", "table_branch", "row_count"),
    ]
    numbers = {"table_version", "row_count"}
    for field in schema:
        if field.name == "base_objects":
            assert field.type == pa.list_(pa.field("item", pa.utf8()))
        else:
            assert field.type == (pa.uint64() if field.name in numbers else pa.utf8())
        assert field.nullable == (field.name not in {"object_id", "object_type", "table_key"})
    assert schema.field("object_id").metadata == {b"lance-schema:unenforced-primary-key": b"true"}


@pytest.mark.parametrize("path", ["__manifest", AUTHORS, WRITINGS])
def test_every_dataset_has_file_format_2_2_stable_row_ids_and_no_automatic_cleanup(
    graph: GraphManifest, path: str
) -> None:
    dataset = graph.stores.tables.open_newest(path).handle
    assert dataset.data_storage_version == "2.2"
    assert dataset.has_stable_row_ids
    assert not [key for key in dataset.config() if key.startswith("lance.auto_cleanup")]


def test_init_stamps_version_4_in_its_first_commit_and_configures_in_its_second(graph: GraphManifest) -> None:
    first = graph.stores.tables.open(Pin("__manifest", 1)).handle
    live = dataset_of(graph)
    assert first.schema_metadata == live.schema_metadata == {"omnigraph:internal_schema_version": "4"}
    assert live.version == 2
    assert live.config() == {"table_version_management": "true"}


def test_the_rows_at_init_are_those_of_the_worked_example(graph: GraphManifest) -> None:
    rows = manifest_rows(graph)
    genesis = head_of(graph)
    root = graph.stores.tables.location.object_path("")
    for key, path in ((AUTHOR, AUTHORS), (PAPER, PAPERS), (WROTE, WRITINGS)):
        empty = {"table_version": None, "table_branch": None, "row_count": None}
        assert rows.pop(key) == {
            **NOTHING, **empty, "object_id": key, "object_type": "table", "location": path, "table_key": key,
        }  # fmt: skip
        file = f"{root}{path}/_versions/18446744073709551614.manifest"
        assert rows.pop(f"{key}$00000000000000000001") == {
            **NOTHING,
            "object_id": f"{key}$00000000000000000001",
            "object_type": "table_version",
            "metadata": f'{{"manifest_path":"{file}","manifest_size":null,"e_tag":null,"naming_scheme":"V2"}}',
            "table_key": key,
            "table_version": 1,
            "table_branch": None,
            "row_count": 0,
        }
    created_at = graph.commit(genesis).created_us
    assert rows.pop(genesis) == {
        **NOTHING,
        "object_id": genesis,
        "object_type": "graph_commit",
        "metadata": f'{{"created_at":{created_at}}}',
        "table_key": "",
        "table_version": 1,
        "table_branch": None,
        "row_count": None,
    }
    assert rows.pop("graph_head:main") == {
        **NOTHING,
        "object_id": "graph_head:main",
        "object_type": "graph_head",
        "metadata": f'{{"head_commit_id":"{genesis}"}}',
        "table_key": "",
        "table_version": None,
        "table_branch": None,
        "row_count": None,
    }
    assert rows == {}


def test_the_recorded_manifest_path_is_where_the_tables_first_version_lies(graph: GraphManifest) -> None:
    location = graph.stores.tables.location
    recorded = str(metadata_of(manifest_rows(graph)[f"{AUTHOR}$00000000000000000001"])["manifest_path"])
    assert not recorded.startswith("/")
    assert graph.stores.objects.exists(recorded.removeprefix(location.object_path("")))


def test_a_publish_adds_a_version_and_a_commit_with_its_actor_and_replaces_the_head(graph: GraphManifest) -> None:
    before, genesis = manifest_rows(graph), head_of(graph)
    done = graph.publish(request(version(AUTHOR, 4), actor="act-1"))
    after = manifest_rows(graph)
    added = {key: after[key] for key in after.keys() - before.keys()}
    assert set(added) == {f"{AUTHOR}$00000000000000000004", done.commit.id}
    assert {key for key in before if before[key] != after[key]} == {"graph_head:main"}
    new = added[f"{AUTHOR}$00000000000000000004"]
    assert (new["table_version"], new["table_branch"], new["row_count"], new["location"]) == (4, None, 1, None)
    assert str(metadata_of(new)["manifest_path"]).endswith(f"{AUTHORS}/_versions/18446744073709551611.manifest")
    commit = added[done.commit.id]
    assert (commit["table_version"], commit["table_branch"], commit["table_key"]) == (3, None, "")
    assert commit["metadata"] == (
        f'{{"parent_commit_id":"{genesis}","actor_id":"act-1","created_at":{done.commit.created_us}}}'
    )
    assert after["graph_head:main"]["metadata"] == (
        f'{{"head_commit_id":"{done.commit.id}","parent_commit_id":"{genesis}"}}'
    )


def test_a_branch_adds_no_row_and_its_first_write_carries_its_name(graph: GraphManifest) -> None:
    first = graph.publish(request(version(AUTHOR, 4)))
    graph.create_branch("feature")
    inherited = manifest_rows(graph, "feature")
    assert inherited == manifest_rows(graph)
    assert not graph.stores.objects.exists(f"{AUTHORS}/tree")
    second = graph.publish(request(version(AUTHOR, 5, rows=2, branch="feature")), branch="feature")
    rows = manifest_rows(graph, "feature")
    assert rows.keys() - inherited.keys() == {f"{AUTHOR}$00000000000000000005", second.commit.id, "graph_head:feature"}
    new = rows[f"{AUTHOR}$00000000000000000005"]
    assert (new["table_version"], new["table_branch"], new["row_count"]) == (5, "feature", 2)
    expected = f"{AUTHORS}/tree/feature/_versions/18446744073709551610.manifest"
    assert str(metadata_of(new)["manifest_path"]).endswith(expected)
    assert (rows[second.commit.id]["table_version"], rows[second.commit.id]["table_branch"]) == (4, "feature")
    assert metadata_of(rows["graph_head:feature"]) == {
        "head_commit_id": second.commit.id,
        "parent_commit_id": first.commit.id,
    }
    assert manifest_rows(graph) == inherited, "main is unchanged"


def test_a_merge_commit_names_both_parents_and_its_head_row_only_the_first(graph: GraphManifest) -> None:
    graph.create_branch("feature")
    ours, theirs = (
        head_of(graph),
        graph.publish(request(version(AUTHOR, 2, branch="feature")), branch="feature").commit.id,
    )
    merge = graph.publish(request(version(AUTHOR, 2), merged_parent=theirs)).commit
    rows = manifest_rows(graph)
    assert list(metadata_of(rows[merge.id])) == ["parent_commit_id", "merged_parent_commit_id", "created_at"]
    assert (merge.parent, merge.merged_parent) == (ours, theirs)
    assert metadata_of(rows["graph_head:main"]) == {"head_commit_id": merge.id, "parent_commit_id": ours}
    assert theirs not in rows


def test_a_new_type_is_registered_and_a_dropped_one_gets_a_tombstone_after_its_last_version(
    graph: GraphManifest,
) -> None:
    graph.publish(request(version("node:Tag", 1, rows=0)))
    rows = manifest_rows(graph)
    assert rows["node:Tag"]["location"] == "nodes/6ce0cb19e201b153"
    assert rows["node:Tag$00000000000000000001"]["row_count"] == 0
    graph.publish(request(drops=["node:Tag"]))
    after = manifest_rows(graph)
    assert after["node:Tag$tombstone$00000000000000000002"] == {
        **NOTHING,
        "object_id": "node:Tag$tombstone$00000000000000000002",
        "object_type": "table_tombstone",
        "table_key": "node:Tag",
        "table_version": 2,
        "table_branch": None,
        "row_count": None,
    }
    assert after["node:Tag"] == rows["node:Tag"], "the registration stays"
    assert "node:Tag" not in graph.snapshot().tables


def test_a_publish_of_lineage_alone_is_legal(graph: GraphManifest) -> None:
    before = manifest_rows(graph)
    done = graph.publish(request())
    assert manifest_rows(graph).keys() - before.keys() == {done.commit.id}


def test_a_published_version_changes_hands_in_place_when_only_its_branch_differs(graph: GraphManifest) -> None:
    graph.create_branch("feature")
    graph.publish(request(version(AUTHOR, 2, rows=7, branch="feature")), branch="feature")
    graph.publish(request(version(AUTHOR, 2, rows=7)), branch="feature")
    row = manifest_rows(graph, "feature")[f"{AUTHOR}$00000000000000000002"]
    assert (row["table_branch"], row["row_count"]) == (None, 7)
    assert str(metadata_of(row)["manifest_path"]).endswith(f"{AUTHORS}/_versions/18446744073709551613.manifest")
    graph.publish(request(version(AUTHOR, 3, rows=8, branch="feature")), branch="feature")
    assert graph.snapshot("feature")[AUTHOR].version == 3


@pytest.mark.parametrize(("rows", "branch"), [(7, None), (8, None), (8, "feature")])
def test_a_published_version_is_otherwise_taken(graph: GraphManifest, rows: int, branch: str | None) -> None:
    graph.publish(request(version(AUTHOR, 2, rows=7)))
    before = manifest_rows(graph)
    with pytest.raises(ExpectedVersionMismatch) as caught:
        graph.publish(request(version(AUTHOR, 2, rows=rows, branch=branch)))
    assert (caught.value.table_key, caught.value.actual) == (AUTHOR, 2)
    assert manifest_rows(graph) == before


def test_a_dropped_type_comes_back_only_with_a_version_after_its_tombstone(graph: GraphManifest) -> None:
    graph.publish(request(version("node:Tag", 1)))
    graph.publish(request(drops=["node:Tag"]))
    with pytest.raises(CommitRejected, match="later version"):
        graph.publish(request(version("node:Tag", 2)))
    graph.publish(request(version("node:Tag", 3)))
    assert graph.snapshot()["node:Tag"].version == 3
