"""How the file that Lance writes for every version grows with the number of publishes, and what stops it.

With stable row ids each fragment carries its row ids and two sequences of row versions inside the version's manifest
file. Every publish leaves a run in each of them for ever, compaction or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pytest
from lance import LanceDataset

from conformance.head_row import (
    HEAD_FILTER,
    chain,
    compact,
    create,
    create_with_lone_head,
    head_fragment,
    keyed_publish,
    publish,
    stage_lone_head_publish,
)
from conformance.tables import manifest_file

if TYPE_CHECKING:
    from pathlib import Path

FEW, MANY = 16, 48
PUBLISHES_BETWEEN = MANY - FEW


def publish_lone_head(manifest: LanceDataset, commit_id: str) -> LanceDataset:
    staged = stage_lone_head_publish(manifest, commit_id, keep_head_row_id=True)
    return LanceDataset.commit(manifest, staged, max_retries=0)


def bytes_after_plain_compaction(uri: Path, publishes: int) -> int:
    """The manifest file of the first publish after everything was compacted into one fragment."""
    manifest = create(str(uri))
    for turn in range(publishes):
        manifest = publish(manifest, f"c{turn:03d}")
    last = publish(compact(manifest), "last")
    return manifest_file(uri, last.version).stat().st_size


def bytes_after_stripped_compaction(uri: Path, publishes: int) -> int:
    """The same with a lone head that keeps its row id, and row versions stripped from what was compacted."""
    manifest = create_with_lone_head(str(uri))
    for turn in range(publishes):
        manifest = publish_lone_head(manifest, f"c{turn:03d}")
    compacted = compact(manifest, keep_row_versions=False, leave_out=(head_fragment(manifest),))
    last = publish_lone_head(compacted, "last")
    assert len(last.get_fragments()) == 3
    return manifest_file(uri, last.version).stat().st_size


def test_a_plainly_compacted_manifest_file_grows_with_every_publish(tmp_path: Path) -> None:
    few = bytes_after_plain_compaction(tmp_path / "few", FEW)
    many = bytes_after_plain_compaction(tmp_path / "many", MANY)
    assert many - few > 2 * 8 * PUBLISHES_BETWEEN


def test_a_manifest_file_without_row_versions_and_burnt_row_ids_does_not_grow(tmp_path: Path) -> None:
    few = bytes_after_stripped_compaction(tmp_path / "few", FEW)
    many = bytes_after_stripped_compaction(tmp_path / "many", MANY)
    assert many - few < PUBLISHES_BETWEEN


def test_a_head_that_keeps_its_row_id_is_one_row_that_moves(tmp_path: Path) -> None:
    manifest = create_with_lone_head(str(tmp_path / "m"))
    before = manifest.to_table(columns=["_rowid"], filter=HEAD_FILTER)["_rowid"].to_pylist()
    for turn in range(5):
        manifest = publish_lone_head(manifest, f"c{turn}")
    assert manifest.to_table(columns=["_rowid"], filter=HEAD_FILTER)["_rowid"].to_pylist() == before
    row_ids = sorted(manifest.to_table(columns=["_rowid"])["_rowid"].to_pylist())
    assert row_ids == list(range(13))


@pytest.mark.parametrize("keep_row_versions", [True, False])
def test_a_compacted_manifest_stays_sound_under_every_later_writer(tmp_path: Path, keep_row_versions: bool) -> None:
    manifest = create_with_lone_head(str(tmp_path / "m"))
    for turn in range(4):
        manifest = publish_lone_head(manifest, f"c{turn}")
    manifest = compact(manifest, keep_row_versions=keep_row_versions, leave_out=(head_fragment(manifest),))
    manifest = publish_lone_head(manifest, "lone")
    keyed_publish(manifest, "keyed")
    manifest.optimize.compact_files()
    newest = publish(lance.dataset(manifest.uri), "staged")
    newest.validate()
    assert chain(newest) == ["staged", "keyed", "lone", "c3", "c2", "c1", "c0", "genesis"]
    row_ids = newest.to_table(columns=["_rowid"])["_rowid"].to_pylist()
    assert len(set(row_ids)) == len(row_ids) == 17
