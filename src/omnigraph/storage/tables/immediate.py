"""Operations that Lance can only do by committing immediately. Each function says why it is here.

Everything else is staged (`storage/tables/staging.py`) and committed by the commit protocol.

`cleans_itself` and `stage_auto_cleanup_off` concern a setting that earlier releases gave to tables: with it, Lance
deletes old versions after some of the commits, whoever makes them, and knows nothing of the graph's branches, tags and
retained commits. Only `cleanup` may collect versions, so the setting is removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import lance
from lance import LanceDataset, LanceOperation, Transaction

from omnigraph.counters import count
from omnigraph.storage.lance.errors import lance_errors
from omnigraph.storage.tables.staging import Staged
from omnigraph.storage.tables.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

_SETTING = "lance.auto_cleanup."


def cleans_itself(table: Table) -> bool:
    """Whether a table has the auto-cleanup setting; makes no request."""
    return bool(_settings(table))


def stage_auto_cleanup_off(table: Table) -> Staged:
    """Stage the removal of the auto-cleanup setting. The commit that removes it collects nothing any more."""
    update = LanceOperation.UpdateMap(dict.fromkeys(_settings(table)))
    return Staged(table, "configure", Transaction(table.version, LanceOperation.UpdateConfig(config_updates=update)))


def _settings(table: Table) -> list[str]:
    return [name for name in table.handle.config() if name.startswith(_SETTING)]


@dataclass(frozen=True)
class CollectedVersions:
    """What a collection has deleted, or would delete."""

    versions: int
    bytes: int


def upsert_rows_by_key(table: Table, rows: pa.Table, *, key: str) -> Table:
    """Insert or replace rows under the primary-key filter, as one commit without retries.

    It is here because only the committing call carries the filter of inserted keys: two concurrent inserts of one new
    key conflict on it, while both would commit if they were staged.
    """
    count("table_commits", table.path)
    with lance_errors(f"writing rows of {table.path}"):
        dataset = LanceDataset(table.uri, version=table.version, storage_options=table.storage_options)
        builder = dataset.merge_insert(key).when_matched_update_all().when_not_matched_insert_all()
        builder.conflict_retries(0).use_index(False).execute(rows)
    return Table(dataset, path=table.path, branch=table.branch)


def set_schema_metadata(table: Table, entries: Mapping[str, str]) -> Table:
    """Set schema-level metadata. Lance makes a commit of it that conflicts with any other such commit."""
    count("table_commits", table.path)
    with lance_errors(f"setting metadata of {table.path}"):
        dataset = _own_handle(table)
        dataset.update_schema_metadata(dict(entries))
    return Table(dataset, path=table.path, branch=table.branch)


def set_field_metadata(table: Table, field: str, entries: Mapping[str, str]) -> Table:
    """Set the metadata of one column."""
    count("table_commits", table.path)
    with lance_errors(f"setting metadata of {table.path}.{field}"):
        dataset = _own_handle(table)
        dataset.update_field_metadata({field: dict(entries)})
    return Table(dataset, path=table.path, branch=table.branch)


def set_config(table: Table, entries: Mapping[str, str]) -> Table:
    """Set dataset configuration."""
    count("table_commits", table.path)
    with lance_errors(f"setting configuration of {table.path}"):
        dataset = _own_handle(table)
        dataset.update_config(dict(entries))
    return Table(dataset, path=table.path, branch=table.branch)


def create_branch(table: Table, name: str) -> None:
    """Create a branch of this table from the version and branch of the handle. References have no staged form."""
    count("table_commits", table.path)
    with lance_errors(f"creating branch {name!r} of {table.path}"):
        _own_handle(table).create_branch(name)


def branch_references(main: Table) -> dict[str, Any]:
    """The reference of each branch of a table, by name; `main` is a handle on its main branch."""
    with lance_errors(f"listing branches of {main.path}"):
        return dict(main.handle.branches.list())


def delete_branch(main: Table, name: str) -> None:
    """Delete a branch and its files; `main` is a handle on the table's main branch."""
    count("table_commits", main.path)
    with lance_errors(f"deleting branch {name!r} of {main.path}"):
        _own_handle(main).branches.delete(name)


def preview(staged: Staged) -> Table:
    """The state that a staged change would make, as a detached version; the caller deletes its version file.

    It is here because Lance commits a detached version too. Indexes of staged fragments can be built over it before any
    writer has to wait.
    """
    table = staged.table
    count("table_commits", table.path)
    with lance_errors(f"previewing a change to {table.path}"):
        transaction = Transaction(table.version, staged.transaction.operation)
        dataset = LanceDataset.commit(
            table.handle, transaction, detached=True, max_retries=1, storage_options=table.storage_options
        )
    return Table(dataset, path=table.path, branch=table.branch)


def collect_versions(table: Table, versions: Sequence[int]) -> CollectedVersions:
    """Delete these versions, the files that only they needed, and files that no version has needed for seven days.

    The newest version and those that Lance branches or tags refer to are retained.
    """
    count("object_deletes", table.path)
    with lance_errors(f"collecting old versions of {table.path}"):
        stats = _own_handle(table).cleanup_old_versions(**_selected(versions))
    return CollectedVersions(int(stats.old_versions), int(stats.bytes_removed))


def would_collect(table: Table, versions: Sequence[int]) -> CollectedVersions:
    """What `collect_versions` would delete."""
    with lance_errors(f"looking at old versions of {table.path}"):
        stats = _own_handle(table).explain_cleanup_old_versions(**_selected(versions)).stats
    return CollectedVersions(int(stats.old_versions), int(stats.bytes_removed))


def _selected(versions: Sequence[int]) -> dict[str, object]:
    # Without a version to delete, only files that no version needs are collected.
    chosen = {"versions": list(versions)} if versions else {"retain_versions": 1 << 40}
    return {**chosen, "error_if_tagged_old_versions": False}


def collect_old_versions(table: Table, *, keep: int) -> int:
    """Delete all but the newest `keep` versions and the files that only those needed; return the number of versions.

    Versions that branches or tags refer to are retained. Files of uncommitted writes are kept for seven days.
    """
    count("object_deletes", table.path)
    with lance_errors(f"collecting old versions of {table.path}"):
        stats = _own_handle(table).cleanup_old_versions(retain_versions=keep, error_if_tagged_old_versions=False)
    return int(stats.old_versions)


def _own_handle(table: Table) -> LanceDataset:
    """A second handle on the same version: Lance advances the one it is given, and ours are shared."""
    return lance.dataset(table.uri, version=table.version, storage_options=table.storage_options)
