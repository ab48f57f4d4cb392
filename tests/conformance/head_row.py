"""The publish pattern of OmniGraph's manifest, on bare Lance: one staged Update replaces the head row and adds rows."""

from __future__ import annotations

import json

import lance
import pyarrow as pa
from lance import FragmentMetadata, LanceDataset, LanceOperation, Transaction
from lance.fragment import write_fragments
from lance.optimize import Compaction

from conformance.tables import PRIMARY_KEY, write

HEAD = "graph_head:main"
HEAD_FILTER = f"object_id = '{HEAD}'"
SCHEMA = pa.schema(
    [
        pa.field("object_id", pa.utf8(), nullable=False, metadata=PRIMARY_KEY),
        pa.field("object_type", pa.utf8(), nullable=False),
        pa.field("location", pa.utf8()),
        pa.field("metadata", pa.utf8()),
        pa.field("base_objects", pa.list_(pa.field("item", pa.utf8()))),
        pa.field("table_key", pa.utf8(), nullable=False),
        pa.field("table_version", pa.uint64()),
        pa.field("table_branch", pa.utf8()),
        pa.field("row_count", pa.uint64()),
    ]
)


def rows(commit_id: str, parent: str | None, version: int) -> pa.Table:
    """The three rows of one publish: a table version, the commit, the head."""
    facts = [
        {"object_id": f"node:Person${commit_id}", "object_type": "table_version", "table_key": "node:Person"},
        {"object_id": commit_id, "object_type": "graph_commit", "metadata": json.dumps({"parent": parent})},
        {"object_id": HEAD, "object_type": "graph_head", "metadata": json.dumps({"head": commit_id})},
    ]
    return pa.Table.from_pylist([{"table_key": "", "table_version": version, **fact} for fact in facts], schema=SCHEMA)


def create(uri: str) -> LanceDataset:
    """A manifest with a genesis commit."""
    return write(uri, rows("genesis", None, 1))


def head_commit(manifest: LanceDataset) -> str:
    """The commit that the one head row names."""
    found = manifest.to_table(columns=["metadata"], filter=HEAD_FILTER)["metadata"].to_pylist()
    assert len(found) == 1
    return str(json.loads(found[0])["head"])


def stage_publish(manifest: LanceDataset, commit_id: str) -> Transaction:
    """Delete the head row from its fragment, write the new rows as a new fragment: one Update, nothing visible yet."""
    added = rows(commit_id, head_commit(manifest), manifest.version + 1)
    updated, removed = _without_head(manifest)
    operation = LanceOperation.Update(
        removed_fragment_ids=removed,
        updated_fragments=updated,
        new_fragments=write_fragments(added, manifest),
        update_mode="rewrite_rows",
    )
    return Transaction(manifest.version, operation)


def publish(manifest: LanceDataset, commit_id: str) -> LanceDataset:
    """Stage and commit without a retry."""
    return LanceDataset.commit(manifest, stage_publish(manifest, commit_id), max_retries=0)


def _without_head(manifest: LanceDataset) -> tuple[list[FragmentMetadata], list[int]]:
    fragment = manifest.get_fragment(head_fragment(manifest))
    left = fragment.delete(HEAD_FILTER)
    return ([], [fragment.fragment_id]) if left is None else ([left], [])


def keyed_publish(manifest: LanceDataset, commit_id: str) -> None:
    """The other way to publish: a committing merge_insert by primary key, without a retry."""
    added = rows(commit_id, head_commit(manifest), manifest.version + 1)
    builder = manifest.merge_insert("object_id").when_matched_update_all().when_not_matched_insert_all()
    builder.conflict_retries(0).execute(added)


def compact(manifest: LanceDataset, *, keep_row_versions: bool = True, leave_out: tuple[int, ...] = ()) -> LanceDataset:
    """All fragments into one by a hand-made Rewrite: one version, and no reservation commit before it."""
    options = {"target_rows_per_fragment": 1_000_000, "excluded_fragment_ids": list(leave_out)}
    plan = Compaction.plan(manifest, options)
    groups = [
        LanceOperation.RewriteGroup(
            done.original_fragments,
            done.new_fragments if keep_row_versions else [without_row_versions(f) for f in done.new_fragments],
        )
        for done in (task.execute(manifest) for task in plan.tasks)
    ]
    operation = LanceOperation.Rewrite(groups, [])
    return LanceDataset.commit(manifest, Transaction(manifest.version, operation), max_retries=0)


def without_row_versions(fragment: FragmentMetadata) -> FragmentMetadata:
    """The fragment without its created-at and last-updated-at sequences, which cost bytes in every manifest."""
    facts = fragment.to_json() | {"created_at_version_meta": None, "last_updated_at_version_meta": None}
    return FragmentMetadata.from_json(json.dumps(facts))


def stage_lone_head_publish(manifest: LanceDataset, commit_id: str, *, keep_head_row_id: bool) -> Transaction:
    """As `stage_publish`, with the new head in a fragment of its own, so that the old one is removed as a whole."""
    old = manifest.get_fragment(head_fragment(manifest)).metadata
    assert old.num_rows == 1, "removing this fragment would take other rows along"
    added = rows(commit_id, head_commit(manifest), manifest.version + 1)
    facts, head = write_fragments(added[:2], manifest), write_fragments(added[2:], manifest)
    if keep_head_row_id:
        head = [with_row_ids_of(old, head[0])]
    operation = LanceOperation.Update(
        removed_fragment_ids=[old.id], new_fragments=[*facts, *head], update_mode="rewrite_rows"
    )
    return Transaction(manifest.version, operation)


def create_with_lone_head(uri: str) -> LanceDataset:
    """A manifest whose head row is alone in its fragment."""
    genesis = rows("genesis", None, 1)
    write(uri, genesis[:2])
    return lance.write_dataset(genesis[2:], uri, mode="append")


def head_fragment(manifest: LanceDataset) -> int:
    """The fragment that holds the head row."""
    found = manifest.to_table(columns=["_rowaddr"], filter=HEAD_FILTER)["_rowaddr"].to_pylist()
    return int(found[0]) >> 32


def with_row_ids_of(donor: FragmentMetadata, fragment: FragmentMetadata) -> FragmentMetadata:
    """The fragment under the row ids of another with as many rows."""
    facts = fragment.to_json() | {"row_id_meta": donor.to_json()["row_id_meta"]}
    return FragmentMetadata.from_json(json.dumps(facts))


def chain(manifest: LanceDataset) -> list[str]:
    """Commit ids from the head to genesis, following parents; fails if a commit appears twice."""
    commits = manifest.to_table(columns=["object_id", "metadata"], filter="object_type = 'graph_commit'").to_pylist()
    parents = {c["object_id"]: json.loads(c["metadata"])["parent"] for c in commits}
    assert len(parents) == len(commits)
    walked: list[str] = []
    at: str | None = head_commit(manifest)
    while at is not None:
        walked.append(at)
        at = parents[at]
    return walked
