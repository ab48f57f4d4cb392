"""Stages changes to Lance tables, each as files and an uncommitted transaction, and commits staged changes.

A change can also be staged from fragments that other processes have written, such as the tasks of a Spark job.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
import pyarrow.compute as pc
from lance import FragmentMetadata, LanceDataset, LanceOperation, Transaction
from lance.fragment import write_fragments

from omnigraph.counters import count
from omnigraph.errors import CommitOutcomeUnknown, InvalidInput, OmniGraphError
from omnigraph.failpoints import reach
from omnigraph.kernels.arrays import ID
from omnigraph.storage.filters.model import Filter, render
from omnigraph.storage.lance.data_files import FILE_FORMAT
from omnigraph.storage.lance.errors import Trouble, classify, lance_errors, translate
from omnigraph.storage.tables.table import ROWS_PER_FILE, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

Change = Literal[
    "append", "overwrite", "upsert", "insert", "delete", "change", "index", "compact", "restore", "configure"
]

# The transaction property with the id of the operation that staged it: recovery finds whose commit a version is.
OPERATION_PROPERTY = "omnigraph.operation"


@dataclass(frozen=True)
class Staged:
    """Files on the store and a transaction that would make them the table's next version."""

    table: Table
    change: Change
    transaction: Transaction
    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    @property
    def uuid(self) -> str:
        """The identity that the transaction keeps through rebases; recovery searches for it."""
        return str(self.transaction.uuid)

    @property
    def read_version(self) -> int:
        """The version that the change was computed from."""
        return int(self.transaction.read_version)


@dataclass(frozen=True)
class Committed:
    """A committed change. `contiguous` is false if another commit lies between it and the version it was staged on."""

    table: Table
    version: int
    contiguous: bool


def stage_operation(
    table: Table, change: Change, operation: object, *, inserted: int = 0, updated: int = 0, deleted: int = 0
) -> Staged:
    """Stage one of Lance's operations upon the version of the handle."""
    transaction = Transaction(table.version, operation)
    return Staged(table, change, transaction, inserted=inserted, updated=updated, deleted=deleted)


def stage_append(table: Table, rows: pa.Table | pa.RecordBatchReader) -> Staged:
    """Insert rows. Lance rebases an append over any other writer's rows: see `Committed.contiguous`."""
    fragments = _write(table, rows)
    return stage_operation(table, "append", LanceOperation.Append(fragments), inserted=_rows_of(fragments))


def stage_fragments(table: Table, fragments: Sequence[FragmentMetadata]) -> Staged:
    """Insert rows that other processes, such as Spark executors, have already written as fragments of this table."""
    return stage_operation(table, "append", LanceOperation.Append(list(fragments)), inserted=_rows_of(fragments))


def stage_overwrite(table: Table, rows: pa.Table | pa.RecordBatchReader) -> Staged:
    """Replace all rows and the schema. An empty table is a legal content."""
    reader = _as_reader(rows)
    with lance_errors(f"staging new content for {table.path}"):
        transaction = write_fragments(
            reader,
            table.handle,
            schema=reader.schema,
            mode="overwrite",
            return_transaction=True,
            data_storage_version=FILE_FORMAT,
            max_rows_per_file=ROWS_PER_FILE,
            allow_external_blob_outside_bases=True,
        )
    operation = LanceOperation.Overwrite(reader.schema, transaction.operation.fragments)
    return stage_operation(table, "overwrite", operation, inserted=_rows_of(operation.fragments))


def stage_content(table: Table, schema: pa.Schema, fragments: Sequence[FragmentMetadata]) -> Staged:
    """Make the fragments, which were written in overwrite mode, the whole content, and set the schema."""
    operation = LanceOperation.Overwrite(schema, list(fragments))
    return stage_operation(table, "overwrite", operation, inserted=_rows_of(fragments))


def stage_delete(table: Table, where: Filter) -> Staged | None:
    """Delete the rows that match; None when there are none."""
    predicate = render(where, table.schema)
    shrunk, emptied, deleted = _delete_from_fragments(table, predicate)
    if not deleted:
        return None
    operation = LanceOperation.Delete(shrunk, emptied, predicate)
    return stage_operation(table, "delete", operation, deleted=deleted)


def stage_restore(table: Table, version: int) -> Staged:
    """Make an earlier version's content the newest. It wins over any data commit made meanwhile."""
    return stage_operation(table, "restore", LanceOperation.Restore(version))


def commit_staged(staged: Staged, *, operation_id: str | None = None) -> Committed:
    """Commit a staged change as the table's next version.

    A lost acknowledgement is resolved by searching for the transaction, never by committing again: Lance would commit
    it twice. If the search fails as well, the error is `CommitOutcomeUnknown`.
    """
    transaction = staged.transaction
    if operation_id is not None:
        transaction.transaction_properties = {
            **(transaction.transaction_properties or {}),
            OPERATION_PROPERTY: operation_id,
        }
    count("table_commits", staged.table.path)
    try:
        dataset = LanceDataset.commit(
            staged.table.handle,
            transaction,
            max_retries=0,
            # Without them the new handle could neither be reopened nor be sent to another process.
            storage_options=staged.table.storage_options,
        )
        reach("table.committed")
    except (OSError, ValueError, RuntimeError) as error:
        return _resolve_outcome(staged, error)
    return _committed(staged, dataset)


def find_transaction(table: Table, uuid: str, *, after: int) -> int | None:
    """The version that the transaction was committed as, searching all newer than `after`; None if it was not."""
    newest = table.latest_version()
    for version in range(after + 1, newest + 1):
        if _transaction_uuid(table, version) == uuid:
            return version
    return None


@dataclass(frozen=True)
class Made:
    """How a version was made: `Append`, `Rewrite`, …, or `unknown`; `restored` is the version that a restore restored.

    `operation_id` names the operation of this program that made it; None when another program did.
    """

    version: int
    operation: str
    restored: int | None = None
    operation_id: str | None = None


def how_made(table: Table, version: int) -> Made:
    """The kind of change that made a version, as far as its transaction still exists."""
    try:
        transaction = table.handle.read_transaction(version)
    except TypeError:
        return Made(version, "Rewrite")  # pylance cannot convert the compaction of an indexed table, and only that
    except (OSError, ValueError) as error:
        if classify(error) is Trouble.NOT_FOUND:
            return Made(version, "unknown")
        raise translate(error, f"reading the transaction of version {version} of {table.path}") from error
    if transaction is None:
        return Made(version, "unknown")
    name = type(transaction.operation).__name__
    restored = int(transaction.operation.version) if name == "Restore" else None
    # pylance has no class for the operation that reserves fragment ids, which changes no row.
    kind = "ReserveFragments" if name == "BaseOperation" else name
    return Made(version, kind, restored, (transaction.transaction_properties or {}).get(OPERATION_PROPERTY))


def are_ours(table: Table, *, after: int) -> bool:
    """Whether operations of this program made every version of the table that is newer than `after`."""
    return all(how_made(table, each).operation_id for each in range(after + 1, table.version + 1))


def _resolve_outcome(staged: Staged, error: BaseException) -> Committed:
    trouble = classify(error)
    if trouble not in (Trouble.UNKNOWN_OUTCOME, Trouble.UNREACHABLE, Trouble.OTHER):
        raise translate(error, f"committing to {staged.table.path}") from error
    try:
        version = find_transaction(staged.table, staged.uuid, after=staged.read_version)
    except OmniGraphError as second:
        message = f"committing to {staged.table.path}: no answer, and the outcome could not be looked up ({second})"
        raise CommitOutcomeUnknown(message, transaction=staged.uuid) from error
    if version is None:
        raise translate(error, f"committing to {staged.table.path}") from error
    return _committed(staged, staged.table.handle.checkout_version(version))


def _committed(staged: Staged, dataset: LanceDataset) -> Committed:
    table = Table(dataset, path=staged.table.path, branch=staged.table.branch)
    return Committed(table, table.version, table.version == staged.read_version + 1)


def _transaction_uuid(table: Table, version: int) -> str | None:
    try:
        transaction = table.handle.read_transaction(version)
    except TypeError:
        return None  # pylance cannot convert a compaction of an indexed table; such a version is never ours to find
    except (OSError, ValueError) as error:
        if classify(error) is Trouble.NOT_FOUND:
            return None
        raise translate(error, f"reading the transaction of version {version} of {table.path}") from error
    return None if transaction is None else str(transaction.uuid)


def _as_reader(rows: pa.Table | pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Rows as a stream, so that callers may pass either a table or a reader."""
    return rows.to_reader() if isinstance(rows, pa.Table) else rows


def _write(table: Table, rows: pa.Table | pa.RecordBatchReader) -> list[FragmentMetadata]:
    reader = _as_reader(rows)
    with lance_errors(f"staging rows for {table.path}"):
        return list(
            write_fragments(
                reader,
                table.handle,
                schema=reader.schema,
                max_rows_per_file=ROWS_PER_FILE,
                allow_external_blob_outside_bases=True,
            )
        )


def _delete_from_fragments(table: Table, predicate: str) -> tuple[list[FragmentMetadata], list[int], int]:
    shrunk: list[FragmentMetadata] = []
    emptied: list[int] = []
    deleted = 0
    with lance_errors(f"staging deletions for {table.path}"):
        for fragment in table.handle.get_fragments():
            matching = fragment.count_rows(predicate)
            if not matching:
                continue
            deleted += matching
            remaining = fragment.delete(predicate)
            if remaining is None:
                emptied.append(fragment.fragment_id)
            else:
                shrunk.append(remaining)
    return shrunk, emptied, deleted


def refuse_repeated_ids(table: Table, rows: pa.Table) -> None:
    """Raise when an id occurs twice in the rows."""
    counts = rows.column(ID).value_counts()
    repeated = (
        [each["values"].as_py() for each in counts if each["counts"].as_py() > 1][:3]
        if len(counts) < rows.num_rows
        else []
    )
    if repeated:
        raise InvalidInput(f"rows for {table.path} repeat the id {repeated[0]!r}")


def refuse_deleted_ids(table: Table, rows: pa.Table, deleted_ids: Sequence[str]) -> None:
    """Raise when an id is both written and deleted."""
    if not deleted_ids:
        return
    ids = rows.column(ID)
    both = ids.filter(pc.is_in(ids, value_set=pa.array(deleted_ids, pa.string())))
    if len(both):
        raise InvalidInput(f"a change to {table.path} both writes and removes the id {pc.min(both).as_py()!r}")


def _rows_of(fragments: Sequence[FragmentMetadata]) -> int:
    return sum(int(each.physical_rows) for each in fragments)
