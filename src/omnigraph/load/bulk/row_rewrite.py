"""Merge mode of a bulk load: finds the committed rows that the load replaces and stages the result as one Lance Update.

Ids of the load and of the table are matched by a join of 64-bit hashes. Replaced rows are removed from their fragments
by deletion files, and the rows that replace them keep their stable row ids where `RowRewrite` permits it, which the
driver decides for the whole table. Lance assigns given row ids to the first rows of a new fragment, so a staged
fragment with both replacing and new rows is rewritten with the replacing rows first.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.errors import CommitRejected
from omnigraph.kernels.arrays import ID
from omnigraph.kernels.row_address import addresses, fragment_of, offset_of, staged_order, staged_row
from omnigraph.load.bulk.locate_rows import candidate_locations, id_chunks, load_hashes, located, two_hashes
from omnigraph.load.rows import rows_schema
from omnigraph.storage.lance.data_files import fragment_from_json, write_rows
from omnigraph.storage.tables.row_rewrite import RowRewrite, delete_rows, with_row_ids
from omnigraph.storage.tables.table import Pin, TableStore
from omnigraph.tasks.runner import BYTES, INT, LONG, TEXT, grouped_rows, sizes_of
from omnigraph.tasks.staged_rows import FragmentFile, StagedRows, bring_files, fragment_files
from omnigraph.tasks.table_scan import ROWS_PER_TASK, TableScan, tables_in_task, tasks_of
from omnigraph.transaction.constraints.exchange.exchange import PACKET, gathered, packets, partitions_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lance import FragmentMetadata
    from numpy.typing import NDArray

    from omnigraph.storage.objects.location import Location
    from omnigraph.storage.tables.staging import Staged
    from omnigraph.storage.tables.table import Table
    from omnigraph.tasks.runner import Batches, TaskRunner
    from omnigraph.transaction.constraints.exchange.exchange import PartitionHashes
    from omnigraph.transaction.read_view import ReadView

    Uint64s = NDArray[np.uint64]
    from omnigraph.world import World


_PUT, _THERE = range(2)
# Roles of a matched pair: a row id for a staged fragment, a removed offset for a committed fragment.
_STAGED, _COMMITTED = range(2)
_OFFSET_BYTES = 4
_RESULT = pa.schema([("role", INT), ("number", LONG), ("body", BYTES)])
_SHRUNK = pa.schema([("number", LONG), ("fragment", TEXT)])


@dataclass(frozen=True)
class Replacements:
    """The staged table to commit, and the offsets of replaced and deleted rows by committed fragment.

    The staged fragments carry the row ids of the `rows` that they replace; `row_id_span` is the range of those.
    """

    staged: StagedRows
    deletions: Mapping[int, bytes]
    rows: int
    row_id_span: int


def find_replacements(runner: TaskRunner, view: ReadView, table: StagedRows) -> Replacements | None:
    """Match the ids of the load with the committed ids. Returns None if every row is new."""
    entry = view.entry(table.type.table_key)
    scan = TableScan(view.tables.location, entry.pin)
    fragments = [each for each in fragment_files(table) if not each.minted]
    find = _by_prefix_filter if table.rows <= sizes_of(runner).small_load else _by_exchange
    return _replacements(table, find(runner, table, fragments, scan, entry.row_count).collect().to_pylist())


def stage_merge(table: Table, runner: TaskRunner, replacements: Replacements, world: World) -> Staged:
    """Write deletion files for the replaced and deleted rows in tasks, and stage everything as one transaction.

    `table` must be open at a version with the content that the replacements were found in.
    """
    bring_files(table, replacements.staged, world)
    location, pin = replacements.staged.location, table.pin
    items = sorted(replacements.deletions.items())

    def work(group: list[tuple[int, bytes]]) -> Iterator[pa.RecordBatch]:
        yield from (_shrink(location, pin, *item) for item in group)

    groups = grouped_rows(runner, items, lambda each: len(each[1]) // _OFFSET_BYTES)
    shrunk: list[dict[str, Any]] = runner.map(groups, work, _SHRUNK).collect().to_pylist()
    rewrite = RowRewrite(
        TableStore(location, world), table, replaced=replacements.rows, row_id_span=replacements.row_id_span
    )
    for fragment in replacements.staged.fragments:
        rewrite.take_written(fragment.metadata())
    deletions = sum(len(offsets) // _OFFSET_BYTES for offsets in replacements.deletions.values())
    left = [fragment_from_json(each["fragment"]) for each in shrunk if each["fragment"]]
    rewrite.take_deletions(deletions, left, [each["number"] for each in shrunk if not each["fragment"]])
    return rewrite.stage()


def _by_prefix_filter(
    runner: TaskRunner, table: StagedRows, fragments: list[FragmentFile], scan: TableScan, _committed: int
) -> Batches:
    """Match a small load: each task gets all committed rows that the load may replace."""
    there = candidate_locations(runner, scan, load_hashes(runner, table, fragments))
    rewrite = _Rewrite.of(table)

    def work(group: list[FragmentFile]) -> Iterator[pa.RecordBatch]:
        for file in group:
            put = np.concatenate([rows for _, rows in _ids_of(file)])
            for role, owner, rows in _owned({(0, _PUT): put, (0, _THERE): there}):
                yield rewrite.result(role, owner, rows, file)

    found = fragments if len(there) else []
    return runner.map(grouped_rows(runner, found, lambda each: each.rows), work, _RESULT)


def _by_exchange(
    runner: TaskRunner, table: StagedRows, fragments: list[FragmentFile], scan: TableScan, committed: int
) -> Batches:
    """Match a large load: a first exchange joins ids by hash partition, a second collects pairs by fragment."""
    sources: list[FragmentFile | TableScan] = [*fragments, *tasks_of(scan)]
    partitions = partitions_for(table.rows + committed, runner)
    groups = max(1, min(partitions, len(table.fragments)))
    files, rewrite = {each.number: each for each in fragments}, _Rewrite.of(table)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for (number, role), rows in gathered(batches).items():
            yield rewrite.result(role, number, rows, files.get(number))

    matched = _matched(runner, sources, partitions, groups)
    return runner.exchange(matched, groups, work, _RESULT)


def _matched(runner: TaskRunner, sources: list[FragmentFile | TableScan], partitions: int, groups: int) -> Batches:
    """Packets of matched pairs by group: offset and row id for staged fragments, the offset for committed ones."""

    def emit(group: list[FragmentFile | TableScan]) -> Iterator[pa.RecordBatch]:
        for source in group:
            for role, rows in _ids_of(source):
                yield from packets(0, role, rows, partitions)

    def join(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from _packets_of(gathered(batches), groups)

    tasks = grouped_rows(runner, sources, lambda each: each.rows if isinstance(each, FragmentFile) else ROWS_PER_TASK)
    sent = runner.map(tasks, emit, PACKET)
    return runner.exchange(sent, partitions, join, PACKET)


def _ids_of(source: FragmentFile | TableScan) -> Iterator[tuple[int, Uint64s]]:
    """Both hashes of each id, with the row's order in the load, or with row id and row address of a committed row."""
    if isinstance(source, FragmentFile):
        start = np.uint64(staged_order(source.number, 0))
        for batch in source.read([ID]):
            order = start + np.arange(batch.num_rows, dtype=np.uint64)
            start += np.uint64(batch.num_rows)
            yield _PUT, np.column_stack([*two_hashes(batch.column(ID)), order])
        return
    yield from ((_THERE, located(rows)) for rows in id_chunks(source))


def _packets_of(found: PartitionHashes, groups: int) -> Iterator[pa.RecordBatch]:
    """Packets by the staged or committed fragment that owns the rows; its number takes the field of the space."""
    for role, owner, rows in _owned(found):
        partition, width = owner % groups, rows.shape[1]
        yield pa.record_batch([[partition], [owner], [role], [width], [rows.tobytes()]], schema=PACKET)


def _owned(found: PartitionHashes) -> Iterator[tuple[int, int, Uint64s]]:
    """Matched rows by fragment: offsets and row ids for staged fragments, replaced offsets for committed ones.

    Ids are unique on both sides, so equal hashes form exactly one pair.
    """
    put, there = found.get((0, _PUT)), found.get((0, _THERE))
    if put is None or there is None:
        return
    there = there[np.argsort(there[:, 0], kind="stable")]
    at = np.searchsorted(there[:, 0], put[:, 0])
    at = np.minimum(at, len(there) - 1)
    same = (there[at, 0] == put[:, 0]) & (there[at, 1] == put[:, 1])
    mine, theirs = put[same], there[at[same]]
    numbers, offsets = staged_row(mine[:, 2])
    yield from _by_owner(_STAGED, numbers, np.column_stack([offsets, theirs[:, 2]]))
    yield from _by_owner(_COMMITTED, fragment_of(theirs[:, 3]), offset_of(theirs[:, 3])[:, None])


def _by_owner(role: int, owners: Uint64s, rows: Uint64s) -> Iterator[tuple[int, int, Uint64s]]:
    order = np.argsort(owners, kind="stable")
    owners, rows = owners[order], rows[order]
    for number in np.unique(owners):
        start, end = np.searchsorted(owners, number), np.searchsorted(owners, number, "right")
        yield role, int(number), np.ascontiguousarray(rows[start:end])


@dataclass(frozen=True)
class _Rewrite:
    """What a task needs to assign row ids to staged fragments."""

    location: Location
    table_dir: str
    schema: pa.Schema
    fragments: Mapping[int, str]
    with_blobs: str | None

    @classmethod
    def of(cls, table: StagedRows) -> _Rewrite:
        """The rewrite of a staged table's fragments."""
        fragments = {number: each.fragment for number, each in enumerate(table.fragments)}
        blobs = table.type.name if table.has_blobs else None
        return cls(table.location, table.directory, rows_schema(table.type), fragments, blobs)

    def result(self, role: int, number: int, rows: Uint64s, file: FragmentFile | None) -> pa.RecordBatch:
        """The result for one fragment: replaced offsets of a committed one, or the staged one with its row ids."""
        if role == _COMMITTED:
            offsets = rows.reshape(-1).astype(np.uint32)
            return pa.record_batch([[role], [number], [offsets.tobytes()]], schema=_RESULT)
        assert file is not None, "a staged fragment has a file"
        _require_sorted(file, rows, self.with_blobs)
        uri = self.location.child(self.table_dir)
        body = _with_replacing_rows_first(file, self.fragments[number], rows, uri, self.schema)
        return pa.record_batch([[role], [number], [json.dumps(body).encode()]], schema=_RESULT)


def _require_sorted(file: FragmentFile, rows: Uint64s, type_name: str | None) -> None:
    """Require that a file with blobs has only replacing rows; otherwise a concurrent commit changed the table."""
    if type_name is not None and len(rows) != file.rows:
        raise CommitRejected(f"{type_name} was changed while the load was reading, and has blobs: load again.")


def _with_replacing_rows_first(
    file: FragmentFile, fragment: str, rows: Uint64s, uri: str, schema: pa.Schema
) -> dict[str, object]:
    """The staged fragment with the row ids of the rows that it replaces, rewritten if those are not its first rows."""
    rows = rows[np.argsort(rows[:, 0])]
    offsets, row_ids = rows[:, 0].astype(np.int64), rows[:, 1]
    if np.array_equal(offsets, np.arange(len(offsets))):
        identified = with_row_ids(fragment_from_json(fragment), row_ids)
        return _body(identified, row_ids)
    whole = pa.Table.from_batches(list(file.read(None)))
    is_new = np.ones(whole.num_rows, dtype=bool)
    is_new[offsets] = False
    ordered = whole.take(pa.array(np.concatenate([offsets, np.flatnonzero(is_new)])))
    options = None if file.options is None else dict(file.options)
    stored = pa.Table.from_arrays([ordered.column(each.name) for each in schema], schema=schema)
    written = write_rows(iter(stored.combine_chunks().to_batches()), uri, options, schema, len(stored), "append")
    return _body(with_row_ids(written[0], row_ids), row_ids)


def _body(fragment: FragmentMetadata, row_ids: Uint64s) -> dict[str, object]:
    """A staged fragment with the number of rows that it replaces, and their lowest and highest row id."""
    low, high = int(row_ids.min()), int(row_ids.max())
    return {"fragment": json.dumps(fragment.to_json()), "replaced": len(row_ids), "low": low, "high": high}


def _shrink(location: Location, pin: Pin, number: int, offsets: bytes) -> pa.RecordBatch:
    tables = tables_in_task(location)
    shrunk, _ = delete_rows(tables, tables.open(pin), addresses(number, np.frombuffer(offsets, np.uint32)))
    text = json.dumps(shrunk[0].to_json()) if shrunk else ""
    return pa.record_batch([[number], [text]], schema=_SHRUNK)


def _replacements(table: StagedRows, results: list[dict[str, Any]]) -> Replacements | None:
    if not results:
        return None
    fragments = list(table.fragments)
    bodies = {each["number"]: json.loads(each["body"]) for each in results if each["role"] == _STAGED}
    for number, body in bodies.items():
        fragments[number] = replace(fragments[number], fragment=body["fragment"])
    rows = sum(each["replaced"] for each in bodies.values())
    span = max(each["high"] for each in bodies.values()) - min(each["low"] for each in bodies.values())
    deletions: dict[int, list[NDArray[np.uint32]]] = {}
    for each in results:
        if each["role"] == _COMMITTED:
            deletions.setdefault(each["number"], []).append(np.frombuffer(each["body"], np.uint32))
    offsets = {number: np.sort(np.concatenate(found)).tobytes() for number, found in deletions.items()}
    return Replacements(replace(table, fragments=tuple(fragments)), offsets, rows, span)
