"""Publishing as earlier releases did: the rows as a fragment of their own, the lone head row in its place."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lance import FragmentMetadata, LanceDataset, LanceOperation, Transaction
from lance.fragment import write_fragments

from manifest.graphs import dataset_of
from omnigraph.manifest.rows import GraphCommit, GraphHead, Row, TableVersion, encode, head_id
from omnigraph.world import REAL

if TYPE_CHECKING:
    from omnigraph.manifest.graph_manifest import GraphManifest

_KEPT = ("id", "row_id_meta", "created_at_version_meta", "last_updated_at_version_meta")


def stage_as_before(graph: GraphManifest, table_key: str) -> tuple[LanceDataset, Transaction, str]:
    """The next version of a table, staged by an earlier release that has just caught up; with its commit id."""
    dataset = _with_lone_head(graph)
    lineage, entry = graph.lineage(), graph.snapshot()[table_key]
    parent = lineage.head.id if lineage.head else None
    commit = GraphCommit(REAL.ulid(), "main", dataset.version + 1, REAL.now_us(), parent)
    rows: list[Row] = [TableVersion(table_key, entry.version + 1, None, 1, "elsewhere"), commit]
    (head,) = write_fragments(encode([GraphHead("main", commit.id, parent)]), dataset)
    old = dataset.get_fragment(_head_fragment(dataset)).metadata
    facts = {**head.to_json(), **{name: old.to_json()[name] for name in _KEPT}}
    operation = LanceOperation.Update(
        updated_fragments=[FragmentMetadata.from_json(json.dumps(facts))],
        new_fragments=write_fragments(encode(rows), dataset),
        update_mode="rewrite_rows",
    )
    return dataset, Transaction(dataset.version, operation), commit.id


def publish_as_before(graph: GraphManifest, table_key: str) -> str:
    """The same, committed; the commit id."""
    dataset, staged, commit = stage_as_before(graph, table_key)
    LanceDataset.commit(dataset, staged, max_retries=0)
    return commit


def _with_lone_head(graph: GraphManifest) -> LanceDataset:
    """An earlier release writes a head row that is among others anew, by its key."""
    dataset = dataset_of(graph)
    if dataset.get_fragment(_head_fragment(dataset)).metadata.physical_rows == 1:
        return dataset
    head = dataset.to_table(filter=f"object_id = '{head_id('main')}'")
    builder = dataset.merge_insert("object_id").when_matched_update_all().when_not_matched_insert_all()
    builder.conflict_retries(0).use_index(False).execute(head)
    return dataset_of(graph)


def _head_fragment(dataset: LanceDataset) -> int:
    rows = dataset.to_table(columns=["object_id", "_rowaddr"]).to_pylist()
    (address,) = (each["_rowaddr"] for each in rows if each["object_id"] == head_id("main"))
    return int(address) >> 32
