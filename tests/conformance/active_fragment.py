"""The way OmniGraph publishes today, on bare Lance: the last fragment, head row first, is replaced by a longer one."""

from __future__ import annotations

import json
from typing import Any

import lance
import pyarrow as pa
from lance import FragmentMetadata, LanceDataset, LanceOperation, Transaction
from lance.fragment import RowIdSequence, write_fragments

from conformance.head_row import create_with_lone_head, head_commit, head_fragment, rows
from conformance.tables import manifest_file

# No fragment has this number: that publishes say they remove it makes any two of them conflict.
LOCK = 4_000_000_000


def create(uri: str) -> LanceDataset:
    """A manifest whose tail is the head row alone."""
    return create_with_lone_head(uri)


def stage(manifest: LanceDataset, commit_id: str, *, lock: bool = True) -> Transaction:
    """The head row, the rows of the old tail and the new rows in one file; rows that were there keep their ids."""
    old = manifest.get_fragment(head_fragment(manifest))
    version, commit, head = (rows(commit_id, head_commit(manifest), manifest.version + 1)[n : n + 1] for n in range(3))
    content = pa.concat_tables([head, old.to_table()[1:], version, commit]).combine_chunks()
    (fragment,) = write_fragments(content, manifest)
    fragment.row_id_meta = old.metadata.row_id_meta
    operation = LanceOperation.Update(
        removed_fragment_ids=[old.fragment_id, *([LOCK] if lock else [])],
        new_fragments=[fragment],
        update_mode="rewrite_rows",
    )
    return Transaction(manifest.version, operation)


def publish(manifest: LanceDataset, commit_id: str, *, lock: bool = True) -> LanceDataset:
    """Stage and commit without a retry."""
    return LanceDataset.commit(manifest, stage(manifest, commit_id, lock=lock), max_retries=0)


def stage_minor_compaction(manifest: LanceDataset) -> Transaction:
    """All rows but the head row in one fragment without row versions, and the head row alone; not committed."""
    fragments = manifest.get_fragments()
    tail = manifest.get_fragment(head_fragment(manifest))
    others = [each for each in fragments if each.fragment_id != tail.fragment_id]
    joined = pa.concat_tables([*(each.to_table() for each in others), tail.to_table()[1:]]).combine_chunks()
    ids = pa.concat_arrays([*(_row_ids(each.metadata) for each in others), _row_ids(tail.metadata)[1:]])
    head = _written(manifest, tail.to_table()[:1].combine_chunks(), _row_ids(tail.metadata)[:1])
    group = LanceOperation.RewriteGroup(
        [each.metadata for each in (*others, tail)], [_written(manifest, joined, ids), head]
    )
    return Transaction(manifest.version, LanceOperation.Rewrite([group], []))


def stage_old_form(manifest: LanceDataset, commit_id: str) -> Transaction:
    """As earlier releases publish: the rows as a fragment of their own, the lone head replaced under its number."""
    old = manifest.get_fragment(head_fragment(manifest)).metadata
    assert old.physical_rows == 1
    added = rows(commit_id, head_commit(manifest), manifest.version + 1)
    (head,) = write_fragments(added[2:].combine_chunks(), manifest)
    kept = ("id", "row_id_meta", "created_at_version_meta", "last_updated_at_version_meta")
    facts = {**head.to_json(), **{name: old.to_json()[name] for name in kept}}
    operation = LanceOperation.Update(
        updated_fragments=[FragmentMetadata.from_json(json.dumps(facts))],
        new_fragments=write_fragments(added[:2].combine_chunks(), manifest),
        update_mode="rewrite_rows",
    )
    return Transaction(manifest.version, operation)


def collect_between(manifest: LanceDataset, first: int, last: int) -> None:
    """Delete the version files from `first` up to, and without, `last`, as a collection of old versions does."""
    for version in range(first, last):
        manifest_file(manifest.uri, version).unlink()


def newest(manifest: LanceDataset) -> LanceDataset:
    """A fresh handle."""
    return lance.dataset(manifest.uri)


def _written(manifest: LanceDataset, content: pa.Table, ids: pa.Array[Any]) -> FragmentMetadata:
    (fragment,) = write_fragments(content, manifest)
    fragment.row_id_meta = RowIdSequence(ids).to_inline_metadata()
    return fragment


def _row_ids(fragment: FragmentMetadata) -> pa.Array[Any]:
    ids: pa.Array[Any] = RowIdSequence.from_inline_metadata(fragment.row_id_meta).to_pyarrow()
    return ids
