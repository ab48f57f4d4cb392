"""Config, table metadata, schema metadata and field metadata: which updates collide and what an overwrite loses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.commit import CommitConflictError

from conformance.conflict_matrix import COMMITS, INCOMPATIBLE, commit_outcome
from conformance.tables import keyed, write

if TYPE_CHECKING:
    from pathlib import Path

STAMP = "omnigraph:internal_schema_version"
PRIMARY_KEY = "lance-schema:unenforced-primary-key"


@pytest.fixture
def table(tmp_path: Path) -> LanceDataset:
    return write(tmp_path / "t", keyed([1], primary_key=True))


def staged(table: LanceDataset, kind: str, key: str) -> Transaction:
    updates = LanceOperation.UpdateMap({key: "v"})
    return Transaction(table.version, LanceOperation.UpdateConfig(**{kind: updates}))


@pytest.mark.parametrize(
    ("kind", "same_key", "other_key"),
    [
        ("config_updates", INCOMPATIBLE, COMMITS),
        ("table_metadata_updates", INCOMPATIBLE, COMMITS),
        ("schema_metadata_updates", INCOMPATIBLE, INCOMPATIBLE),
    ],
)
def test_two_updates_of_one_kind(table: LanceDataset, kind: str, same_key: str, other_key: str) -> None:
    same, other = staged(table, kind, "k1"), staged(table, kind, "k2")
    LanceDataset.commit(table, staged(table, kind, "k1"), max_retries=0)
    assert commit_outcome(table.uri, same) == same_key
    assert commit_outcome(table.uri, other) == other_key


def test_config_and_schema_metadata_do_not_disturb_each_other(table: LanceDataset) -> None:
    second = staged(table, "schema_metadata_updates", "k")
    LanceDataset.commit(table, staged(table, "config_updates", "k"), max_retries=0)
    assert commit_outcome(table.uri, second) == COMMITS


def test_field_metadata_collides_on_one_field_and_not_on_two(tmp_path: Path) -> None:
    table = write(tmp_path / "two", keyed([1]))
    by_field = [field_metadata(table, field) for field in (0, 0, 1)]
    LanceDataset.commit(table, by_field[0], max_retries=0)
    assert commit_outcome(table.uri, by_field[1]) == INCOMPATIBLE
    assert commit_outcome(table.uri, by_field[2]) == COMMITS


def field_metadata(table: LanceDataset, field: int) -> Transaction:
    updates = {field: LanceOperation.UpdateMap({"k": "v"})}
    return Transaction(table.version, LanceOperation.UpdateConfig(field_metadata_updates=updates))


def test_the_committing_call_tells_a_conflict_as_a_plain_os_error(table: LanceDataset) -> None:
    early, late = lance.dataset(table.uri), lance.dataset(table.uri)
    early.update_schema_metadata({STAMP: "4"})
    with pytest.raises(OSError, match="Incompatible transaction") as refused:
        late.update_schema_metadata({STAMP: "4"})
    assert not isinstance(refused.value, CommitConflictError)


def test_an_overwrite_drops_schema_metadata_and_keeps_config_and_table_metadata(table: LanceDataset) -> None:
    table.update_schema_metadata({STAMP: "4"})
    table.update_config({"table_version_management": "true"})
    table.update_metadata({"owner": "ada"})
    operation = LanceOperation.Overwrite(keyed([]).schema, [])
    over = LanceDataset.commit(table, operation, read_version=table.version, max_retries=0)
    assert STAMP not in over.schema_metadata
    assert over.config()["table_version_management"] == "true"
    assert over.metadata["owner"] == "ada"


def test_an_overwrite_keeps_the_schema_metadata_that_its_own_schema_carries(table: LanceDataset) -> None:
    operation = LanceOperation.Overwrite(keyed([]).schema.with_metadata({STAMP: "4"}), [])
    over = LanceDataset.commit(table, operation, read_version=table.version, max_retries=0)
    assert over.schema_metadata == {STAMP: "4"}


def test_an_overwrite_drops_the_primary_key_unless_its_schema_carries_it(table: LanceDataset) -> None:
    operation = LanceOperation.Overwrite(keyed([]).schema, [])
    over = LanceDataset.commit(table, operation, read_version=table.version, max_retries=0)
    assert not over.schema.field("id").metadata


def test_branches_inherit_config_and_schema_metadata(table: LanceDataset) -> None:
    table.update_schema_metadata({STAMP: "4"})
    table.update_config({"table_version_management": "true"})
    table.create_branch("review")
    branch = lance.dataset(f"{table.uri}/tree/review")
    assert branch.schema_metadata == {STAMP: "4"}
    assert branch.config()["table_version_management"] == "true"


def test_the_primary_key_annotation_can_be_added_later(tmp_path: Path) -> None:
    plain = write(tmp_path / "plain", keyed([1]))
    plain.update_field_metadata({"id": {PRIMARY_KEY: "true"}})
    assert lance.dataset(plain.uri).schema.field("id").metadata == {PRIMARY_KEY.encode(): b"true"}


@pytest.mark.parametrize("value", [None, "false"])
def test_the_primary_key_annotation_cannot_be_taken_away(table: LanceDataset, value: str | None) -> None:
    with pytest.raises(OSError, match="reserved key"):
        table.update_field_metadata({"id": {PRIMARY_KEY: value}})


def test_metadata_updates_move_the_handle_itself(table: LanceDataset) -> None:
    table.update_config({"k": "v"})
    assert table.version == 2
