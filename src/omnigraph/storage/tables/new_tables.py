"""Creates tables, and stages tables that enter the graph together with their content, as one version.

The path of a table follows from its name. A table that the graph does not know may exist there already: it was dropped,
or its creator died. Its versions stay, for time travel and for branches; the new content is committed after them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance import FragmentMetadata, LanceDataset, LanceOperation, Transaction
from lance.fragment import write_fragments

from omnigraph.counters import count
from omnigraph.errors import CommitOutcomeUnknown, CommitRejected, NotFound, ObjectExists, OmniGraphError, StoreError
from omnigraph.failpoints import reach
from omnigraph.storage.lance.data_files import FILE_FORMAT
from omnigraph.storage.lance.errors import Trouble, classify, lance_errors, translate
from omnigraph.storage.tables.immediate import cleans_itself, stage_auto_cleanup_off
from omnigraph.storage.tables.staging import OPERATION_PROPERTY, find_transaction
from omnigraph.storage.tables.table import ROWS_PER_FILE, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from omnigraph.storage.tables.table import TableStore


def create_table(tables: TableStore, path: str, schema: pa.Schema, rows: Sequence[pa.Table] = ()) -> Table:
    """Create a table as version 1, atomically: of several processes creating one table, exactly one succeeds.

    The others get `ObjectExists`. Lance's own create mode acknowledges more than one concurrent creator. Each of `rows`
    becomes a fragment of its own.
    """
    count("table_commits", path)
    uri, options = tables.uri(path), _options(tables)
    fragments: list[FragmentMetadata] = []
    try:
        for fragment in rows:
            fragments += write_fragments(
                fragment,
                uri,
                schema=schema,
                mode="create",
                storage_options=options,
                data_storage_version=FILE_FORMAT,
                enable_stable_row_ids=True,
                max_rows_per_file=ROWS_PER_FILE,
                allow_external_blob_outside_bases=True,
            )
        dataset = LanceDataset.commit(
            uri,
            LanceOperation.Overwrite(schema, fragments),
            read_version=0,
            max_retries=0,
            storage_options=options,
            enable_stable_row_ids=True,
            enable_v2_manifest_paths=True,
        )
    except (OSError, ValueError) as error:
        raise _creation_error(uri, error) from error
    return Table(dataset, path=path, branch=None)


def _creation_error(uri: str, error: BaseException) -> OmniGraphError:
    is_missing = "0.manifest was not found" in str(error) or "18446744073709551615.manifest was not found" in str(error)
    if is_missing or classify(error) in (Trouble.EXISTS, Trouble.RETRYABLE):
        return ObjectExists(f"there is a table at {uri} already", location=uri)
    return translate(error, f"creating a table at {uri}")


@dataclass(frozen=True)
class StagedNewTable:
    """Staged files and the transaction that will make them a table, as exactly this version of it."""

    path: str
    schema: pa.Schema
    transaction: Transaction
    version: int
    row_count: int

    @property
    def uuid(self) -> str:
        """The identity of the transaction; recovery searches for it."""
        return str(self.transaction.uuid)


def stage_new_table(
    tables: TableStore, path: str, schema: pa.Schema, rows: pa.RecordBatchReader | None, *, dead: int = 0
) -> StagedNewTable:
    """Write the content of a new table. Its version will be greater than `dead`, the version of a tombstone."""
    there = _existing(tables, path)
    version = max(_last_before(there), dead) + 1
    fragments = []
    if rows is not None:
        with lance_errors(f"staging the content of a new table at {path}"):
            fragments = list(
                write_fragments(
                    rows,
                    tables.uri(path) if there is None else there.handle,
                    schema=schema,
                    mode="create" if there is None else "overwrite",
                    storage_options=_options(tables),
                    data_storage_version=FILE_FORMAT,
                    enable_stable_row_ids=True,
                    max_rows_per_file=ROWS_PER_FILE,
                    allow_external_blob_outside_bases=True,
                )
            )
    transaction = Transaction(version - 1, LanceOperation.Overwrite(schema, fragments))
    return StagedNewTable(path, schema, transaction, version, sum(int(each.physical_rows) for each in fragments))


def commit_new_table(tables: TableStore, staged: StagedNewTable, *, operation_id: str) -> Table:
    """Commit a staged table as the version it was staged for; `CommitRejected` if others have written to its path."""
    there = _existing(tables, staged.path)
    if (there is None and staged.version > 1) or (there is not None and there.version >= staged.version):
        raise CommitRejected(f"{staged.path} was changed by another program meanwhile: nothing was changed; try again.")
    if there is not None:
        there = _caught_up(tables, there, staged, operation_id)
    staged.transaction.transaction_properties = {OPERATION_PROPERTY: operation_id}
    try:
        return _commit(tables, there, staged.path, staged.transaction)
    except (CommitOutcomeUnknown, StoreError):
        committed = _find_committed(tables, staged)
        if committed is None:
            raise
        return committed


def _find_committed(tables: TableStore, staged: StagedNewTable) -> Table | None:
    """Resolve a lost acknowledgement by searching for the transaction."""
    there = _existing(tables, staged.path)
    if there is None or find_transaction(there, staged.uuid, after=staged.version - 1) != staged.version:
        return None
    return there


def _last_before(there: Table | None) -> int:
    """The version before the new content: one more if the auto-cleanup setting has to be removed first."""
    return 0 if there is None else there.version + cleans_itself(there)


def _caught_up(tables: TableStore, table: Table, staged: StagedNewTable, operation_id: str) -> Table:
    """Commit empty versions up to the one before the new content, to skip the version of a tombstone.

    A dropped table ends before the version of its tombstone, and cannot return as that version.
    """
    while table.version < staged.version - 1:
        empty = Transaction(table.version, LanceOperation.Overwrite(staged.schema, []))
        first = stage_auto_cleanup_off(table).transaction if cleans_itself(table) else empty
        first.transaction_properties = {OPERATION_PROPERTY: operation_id}
        table = _commit(tables, table, staged.path, first)
    return table


def _commit(tables: TableStore, there: Table | None, path: str, transaction: Transaction) -> Table:
    count("table_commits", path)
    with lance_errors(f"making the table at {path}"):
        # Without retries an overwrite is committed as the version right after the one it was made for, or not at all.
        dataset = LanceDataset.commit(
            tables.uri(path) if there is None else there.handle,
            transaction,
            max_retries=0,
            storage_options=_options(tables),
            enable_stable_row_ids=True,
            enable_v2_manifest_paths=True,
        )
        reach("table.committed")
    return Table(dataset, path=path, branch=None)


def _existing(tables: TableStore, path: str) -> Table | None:
    try:
        return tables.open_newest(path)
    except NotFound:
        return None


def _options(tables: TableStore) -> dict[str, str] | None:
    options = tables.location.storage_options
    return None if options is None else dict(options)
