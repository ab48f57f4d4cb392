"""`_row_created_at_version`: what keeps it true, and that it tells which rows an older version had."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pytest
from lance import LanceDataset

from conformance.head_row import HEAD, compact, create, keyed_publish, publish
from conformance.tables import append

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def manifest(tmp_path: Path) -> LanceDataset:
    """Four publishes: rows created at versions 1 to 5."""
    table = create(str(tmp_path / "__manifest"))
    for turn in range(4):
        table = publish(table, f"c{turn}")
    return table


def created(table: LanceDataset, condition: str | None = None) -> dict[str, int]:
    """Creation version of every row that is never updated."""
    rows = table.to_table(columns=["object_id", "_row_created_at_version"], filter=condition).to_pylist()
    return {r["object_id"]: r["_row_created_at_version"] for r in rows if r["object_id"] != HEAD}


def test_a_staged_publish_stamps_rows_with_the_version_that_landed(manifest: LanceDataset) -> None:
    assert created(manifest)["c3"] == manifest.version == 5


def test_compact_files_keeps_it(manifest: LanceDataset) -> None:
    before = created(manifest)
    manifest.optimize.compact_files()
    assert len(manifest.get_fragments()) == 1
    assert created(manifest) == before


def test_a_hand_made_rewrite_keeps_it(manifest: LanceDataset) -> None:
    compacted = compact(manifest)
    assert len(compacted.get_fragments()) == 1
    assert created(compacted) == created(manifest)


def test_a_rewrite_with_stripped_row_versions_reads_one_for_ever(manifest: LanceDataset) -> None:
    compacted = compact(manifest, keep_row_versions=False)
    assert set(created(compacted).values()) == {1}
    assert created(publish(compacted, "later"))["later"] == compacted.version + 1


def test_an_update_of_another_row_keeps_it(manifest: LanceDataset) -> None:
    before = created(manifest)
    head = manifest.to_table(filter=f"object_id = '{HEAD}'")
    manifest.merge_insert("object_id").when_matched_update_all().execute(head)
    assert created(manifest) == before


def test_an_update_keeps_the_creation_version_of_the_row_itself(manifest: LanceDataset) -> None:
    head = manifest.to_table(filter=f"object_id = '{HEAD}'")
    manifest.merge_insert("object_id").when_matched_update_all().execute(head)
    columns = ["_row_created_at_version", "_row_last_updated_at_version"]
    rows = manifest.to_table(columns=columns, filter=f"object_id = '{HEAD}'").to_pylist()
    assert rows == [{"_row_created_at_version": 5, "_row_last_updated_at_version": 6}]


def test_a_delete_of_another_row_keeps_it(manifest: LanceDataset) -> None:
    before = created(manifest)
    manifest.delete("object_id = 'c1'")
    assert created(manifest) == {key: version for key, version in before.items() if key != "c1"}


def test_a_branch_inherits_it_and_goes_on_counting(manifest: LanceDataset) -> None:
    before = created(manifest)
    manifest.create_branch("review")
    branch = lance.dataset(f"{manifest.uri}/tree/review")
    assert created(branch) == before
    grown = publish(branch, "on-branch")
    grown.optimize.compact_files()
    assert created(grown) == before | {"on-branch": 6, "node:Person$on-branch": 6}


def test_filtering_by_it_gives_the_rows_of_every_older_version(manifest: LanceDataset) -> None:
    table = publish(compact(manifest), "c4")
    keyed_publish(table, "c5")
    table.optimize.compact_files()
    table = publish(lance.dataset(table.uri), "c6")
    for version in range(1, table.version + 1):
        then = created(table.checkout_version(version))
        assert created(table, f"_row_created_at_version <= {version}") == then


def test_an_overwrite_starts_it_anew(manifest: LanceDataset) -> None:
    rows = manifest.to_table()
    over = lance.write_dataset(rows, manifest.uri, mode="overwrite", data_storage_version="2.2")
    assert set(created(over).values()) == {over.version}


def test_an_appended_row_that_landed_after_a_foreign_commit_carries_its_real_version(manifest: LanceDataset) -> None:
    rows = manifest.to_table(filter="object_id = 'c0'")
    publish(lance.dataset(manifest.uri), "foreign")
    landed = append(manifest, rows.set_column(0, rows.schema.field(0), [["late"]]))
    assert created(landed)["late"] == landed.version == manifest.version + 2
