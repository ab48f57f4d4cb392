"""Merge: which committed rows the load replaces, found by a join of ids as numbers, and staged as one Update.

Replaced rows are taken out of their fragments by deletion files. The rows that come in their place carry their stable
row ids: Lance binds them to the first rows of a new fragment, so a fragment with old and new rows is written again with
the old ones in front.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.errors import CommitRejected
from omnigraph.spark.bulk.columns import BYTES, INT, LONG, TEXT
from omnigraph.spark.bulk.grouping import grouped_rows
from omnigraph.spark.bulk.numbers.packed import PACKET, Collected, collected, packets, parts_for
from omnigraph.spark.bulk.pieces.known_rows import id_chunks, known_rows, located, put_numbers, two_numbers
from omnigraph.spark.bulk.pieces.staged import PieceFile, StagedTable, bring_files, piece_files
from omnigraph.spark.bulk.sizes import sizes_of
from omnigraph.spark.fragments import write_rows
from omnigraph.spark.table_scan import ROWS_PER_TASK, TableScan, tasks_of
from omnigraph.spark.tasks import errors_of_tasks, one_task_each
from omnigraph.spark.types import spark_schema
from omnigraph.store.replaced_rows import stage_replacement, with_row_ids, without_rows
from omnigraph.store.tables import ID, Pin, TableStore
from omnigraph.write.load.rows import rows_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

    from omnigraph.store.location import Location
    from omnigraph.store.staging import Staged
    from omnigraph.store.tables import Table
    from omnigraph.write.view import View

    Numbers = NDArray[np.uint64]

_PUT, _THERE = range(2)
# What a matched pair becomes: a row id for a piece, an offset for a committed fragment.
_PIECE, _FRAGMENT = range(2)
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFF_FFFF)
_OUTCOME = pa.schema([("role", INT), ("number", LONG), ("body", BYTES)])
_SHRUNK = pa.schema([("number", LONG), ("fragment", TEXT)])


@dataclass(frozen=True)
class Replacements:
    """The staged table as it is to be put, and the offsets of replaced rows by committed fragment."""

    staged: StagedTable
    gone: Mapping[int, bytes]
    rows: int


def find_replacements(session: SparkSession, view: View, table: StagedTable) -> Replacements | None:
    """Match the ids of the load with the committed ones; None when every row is new."""
    entry = view.entry(table.type.table_key)
    scan = TableScan(view.tables.location, entry.pin)
    pieces = [each for each in piece_files(table) if not each.minted]
    find = _by_sieve if table.rows <= sizes_of(session).small_load else _by_shuffle
    outcome = find(session, table, pieces, scan, entry.row_count)
    with errors_of_tasks():
        told: Any = outcome.toArrow()
    return _replacements(table, told.to_pylist())


def stage_merge(table: Table, session: SparkSession, replacements: Replacements) -> Staged:
    """Take the replaced rows out of a handle of the same content, in tasks, and stage everything as one Update."""
    bring_files(table, replacements.staged)
    location, pin = replacements.staged.location, table.pin
    items = sorted(replacements.gone.items())

    def work(group: list[tuple[int, bytes]]) -> Iterator[pa.RecordBatch]:
        yield from (_shrink(location, pin, *item) for item in group)

    groups = grouped_rows(session, items, lambda each: len(each[1]) // 4)
    with errors_of_tasks():
        told: Any = one_task_each(session, groups, work, _SHRUNK).toArrow()
    from lance import FragmentMetadata

    rows = told.to_pylist()
    return stage_replacement(
        table,
        [each.metadata() for each in replacements.staged.pieces],
        shrunk=[FragmentMetadata.from_json(each["fragment"]) for each in rows if each["fragment"]],
        emptied=[each["number"] for each in rows if not each["fragment"]],
        replaced=replacements.rows,
    )


def _by_sieve(
    session: SparkSession, table: StagedTable, pieces: list[PieceFile], scan: TableScan, _committed: int
) -> DataFrame:
    """A few rows that are put: each task knows all committed rows that these may replace."""
    there = known_rows(session, scan, put_numbers(session, table, pieces))
    rewrite = _Rewrite.of(table)

    def work(group: list[PieceFile]) -> Iterator[pa.RecordBatch]:
        for file in group:
            put = np.concatenate([rows for _, rows in _ids_of(file)])
            for role, owner, rows in _owned({(0, _PUT): put, (0, _THERE): there}):
                yield rewrite.outcome(role, owner, rows, file)

    found = pieces if len(there) else []
    return one_task_each(session, grouped_rows(session, found, lambda each: each.rows), work, _OUTCOME)


def _by_shuffle(
    session: SparkSession, table: StagedTable, pieces: list[PieceFile], scan: TableScan, committed: int
) -> DataFrame:
    """Ids of both sides meet part by part, and what was found of a piece or fragment in one task."""
    sources: list[PieceFile | TableScan] = [*pieces, *tasks_of(scan)]
    parts = parts_for(table.rows + committed, session)
    groups = max(1, min(parts, len(table.pieces)))
    files, rewrite = {each.number: each for each in pieces}, _Rewrite.of(table)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for (number, role), rows in collected(batches).items():
            yield rewrite.outcome(role, number, rows, files.get(number))

    matched = _matched(session, sources, parts, groups)
    return matched.repartitionById(groups, "part").mapInArrow(work, spark_schema(_OUTCOME))


def _matched(session: SparkSession, sources: list[PieceFile | TableScan], parts: int, groups: int) -> DataFrame:
    """Packets of matched pairs: by piece the row and its row id, by committed fragment the offset; cut in groups."""

    def emit(group: list[PieceFile | TableScan]) -> Iterator[pa.RecordBatch]:
        for source in group:
            for role, rows in _ids_of(source):
                yield from packets(0, role, rows, parts)

    def join(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from _packets_of(collected(batches), groups)

    tasks = grouped_rows(session, sources, lambda each: each.rows if isinstance(each, PieceFile) else ROWS_PER_TASK)
    sent = one_task_each(session, tasks, emit, PACKET)
    return sent.repartitionById(parts, "part").mapInArrow(join, spark_schema(PACKET))


def _ids_of(source: PieceFile | TableScan) -> Iterator[tuple[int, Numbers]]:
    """Ids as two numbers each, with where they are: in a piece, or as row id and address of a committed row."""
    if isinstance(source, PieceFile):
        start = np.uint64(source.number) << _HALF
        for batch in source.read([ID]):
            places = start + np.arange(batch.num_rows, dtype=np.uint64)
            start += np.uint64(batch.num_rows)
            yield _PUT, np.column_stack([*two_numbers(batch.column(ID)), places])
        return
    yield from ((_THERE, located(rows)) for rows in id_chunks(source))


def _packets_of(found: Collected, groups: int) -> Iterator[pa.RecordBatch]:
    """Packets by the piece or fragment that owns the rows; its number stands where packets have their space."""
    for role, owner, rows in _owned(found):
        part, width = owner % groups, rows.shape[1]
        yield pa.record_batch([[part], [owner], [role], [width], [rows.tobytes()]], schema=PACKET)


def _owned(found: Collected) -> Iterator[tuple[int, int, Numbers]]:
    """By piece its rows with their row ids, by committed fragment the offsets of replaced rows.

    Both sides have an id at most once, so equal numbers are one pair.
    """
    put, there = found.get((0, _PUT)), found.get((0, _THERE))
    if put is None or there is None:
        return
    there = there[np.argsort(there[:, 0], kind="stable")]
    at = np.searchsorted(there[:, 0], put[:, 0])
    at = np.minimum(at, len(there) - 1)
    same = (there[at, 0] == put[:, 0]) & (there[at, 1] == put[:, 1])
    mine, theirs = put[same], there[at[same]]
    yield from _by_owner(_PIECE, mine[:, 2] >> _HALF, np.column_stack([mine[:, 2] & _LOW, theirs[:, 2]]))
    yield from _by_owner(_FRAGMENT, theirs[:, 3] >> _HALF, (theirs[:, 3] & _LOW)[:, None])


def _by_owner(role: int, owners: Numbers, rows: Numbers) -> Iterator[tuple[int, int, Numbers]]:
    order = np.argsort(owners, kind="stable")
    owners, rows = owners[order], rows[order]
    for number in np.unique(owners):
        start, end = np.searchsorted(owners, number), np.searchsorted(owners, number, "right")
        yield role, int(number), np.ascontiguousarray(rows[start:end])


@dataclass(frozen=True)
class _Rewrite:
    """What a task must know to put row ids on pieces."""

    location: Location
    line: str
    schema: pa.Schema
    fragments: Mapping[int, str]
    with_blobs: str | None

    @classmethod
    def of(cls, table: StagedTable) -> _Rewrite:
        """For the pieces of a table."""
        fragments = {number: each.fragment for number, each in enumerate(table.pieces)}
        blobs = table.type.name if table.has_blobs else None
        return cls(table.location, table.line, rows_schema(table.type), fragments, blobs)

    def outcome(self, role: int, number: int, rows: Numbers, file: PieceFile | None) -> pa.RecordBatch:
        """A committed fragment with its replaced offsets, or a piece with its row ids."""
        if role == _FRAGMENT:
            offsets = rows.reshape(-1).astype(np.uint32)
            return pa.record_batch([[role], [number], [offsets.tobytes()]], schema=_OUTCOME)
        assert file is not None, "a piece is told by its file"
        _require_sorted(file, rows, self.with_blobs)
        body = _with_old_rows_first(file, self.fragments[number], rows, self.location, self.line, self.schema)
        return pa.record_batch([[role], [number], [json.dumps(body).encode()]], schema=_OUTCOME)


def _require_sorted(file: PieceFile, rows: Numbers, type_name: str | None) -> None:
    """Files with blobs have nothing but known rows or nothing but new ones, unless somebody committed meanwhile."""
    if type_name is not None and len(rows) != file.rows:
        raise CommitRejected(f"{type_name} was changed while the load was reading, and has blobs: load again.")


def _with_old_rows_first(
    file: PieceFile, fragment: str, rows: Numbers, location: Location, line: str, schema: pa.Schema
) -> dict[str, object]:
    """The piece as a fragment that carries the row ids of the rows it replaces."""
    from lance import FragmentMetadata

    rows = rows[np.argsort(rows[:, 0])]
    places, row_ids = rows[:, 0].astype(np.int64), rows[:, 1]
    if np.array_equal(places, np.arange(len(places))):
        kept = with_row_ids(FragmentMetadata.from_json(fragment), row_ids)
        return {"fragment": json.dumps(kept.to_json()), "replaced": len(row_ids)}
    whole = pa.Table.from_batches(list(file.read(None)))
    is_new = np.ones(whole.num_rows, dtype=bool)
    is_new[places] = False
    ordered = whole.take(pa.array(np.concatenate([places, np.flatnonzero(is_new)])))
    options = None if file.options is None else dict(file.options)
    stored = pa.Table.from_arrays([ordered.column(each.name) for each in schema], schema=schema)
    written = write_rows(
        iter(stored.combine_chunks().to_batches()), location.child(line), options, schema, len(stored), "append"
    )
    return {"fragment": json.dumps(with_row_ids(written[0], row_ids).to_json()), "replaced": len(row_ids)}


def _shrink(location: Location, pin: Pin, number: int, offsets: bytes) -> pa.RecordBatch:
    tables = TableStore(location)
    addresses = np.frombuffer(offsets, np.uint32) + np.uint64(number << 32)
    shrunk, _ = without_rows(tables, tables.open(pin), addresses)
    text = json.dumps(shrunk[0].to_json()) if shrunk else ""
    return pa.record_batch([[number], [text]], schema=_SHRUNK)


def _replacements(table: StagedTable, told: list[dict[str, Any]]) -> Replacements | None:
    if not told:
        return None
    pieces, rows = list(table.pieces), 0
    for each in told:
        if each["role"] == _PIECE:
            body = json.loads(each["body"])
            pieces[each["number"]] = replace(pieces[each["number"]], fragment=body["fragment"])
            rows += body["replaced"]
    gone: dict[int, list[NDArray[np.uint32]]] = {}
    for each in told:
        if each["role"] == _FRAGMENT:
            gone.setdefault(each["number"], []).append(np.frombuffer(each["body"], np.uint32))
    offsets = {number: np.sort(np.concatenate(found)).tobytes() for number, found in gone.items()}
    return Replacements(replace(table, pieces=tuple(pieces)), offsets, rows)
