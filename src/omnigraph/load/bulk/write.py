"""Typed rows written as fragments, by the tasks of one Spark job: the only time that the input is read.

Every task makes ids, checks the rules on single values, and writes one stream of files per type, in memory that follows
`Sizes`. What is wrong with the input comes back as data, so that no task runs twice for it.
"""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import EdgeType
from omnigraph.catalog.rules import value_rules
from omnigraph.errors import EmbeddingFailed, OmniGraphError
from omnigraph.kernels.arrays import ID
from omnigraph.kernels.equality import row_numbers
from omnigraph.load.operation import rows_with_vectors
from omnigraph.load.rows import LegacyIds, permissive_edge_ids, whole_rows
from omnigraph.tasks.fragments import task_number, write_rows
from omnigraph.tasks.hash_runs import IDS, HashRunWriter, draw, draws_of
from omnigraph.tasks.runner import BYTES, INT, LONG, TEXT
from omnigraph.transaction.constraints.values import value_violations
from omnigraph.values.row_ids import strict_ids
from omnigraph.world import World

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.embeddings.embedder import Embeddings
    from omnigraph.tasks.hash_runs import HashRun
    from omnigraph.tasks.runner import Sizes
    from omnigraph.tasks.table_scan import TableScan
    from omnigraph.values.batches import Batch, Mode

    Column = pa.Array[Any]

Kind = Literal["fragment", "noted", "error", "reject", "spelling", "read"]
RESULT = pa.schema([("unit", INT), ("kind", TEXT), ("table", TEXT), ("rows", LONG), ("body", BYTES)])
# When an error is told, as the embedded loader does: reading first, then the ids of edges, vectors that could not be
# made, then rules on values.
READING, EDGE_IDS, VECTORS, VALUES = range(4)


@dataclass(frozen=True)
class FragmentTarget:
    """Where the rows of a type are written. `known`: committed rows; those that replace one are written apart."""

    uri: str
    options: Mapping[str, str] | None
    mode: Literal["append", "overwrite"]
    known: TableScan | None = None


@dataclass(frozen=True)
class WriteJob:
    """What every task of the job knows. `directory`: where numbers of the rows are noted, if all tasks see one.

    `embeddings` makes the vectors that are missing; it may hold a secret.
    """

    catalog: Catalog
    targets: Mapping[str, FragmentTarget]
    mode: Mode
    sizes: Sizes
    settings: Mapping[str, str] = field(repr=False)
    directory: str | None = None
    strict: bool = True
    embeddings: Embeddings | None = field(default=None, repr=False)

    def world(self) -> World:
        """The world of a task: its own clock and randomness, the driver's way to object stores."""
        here = World()
        return World(environ={**here.environ, **self.settings})

    def with_vectors(self, batch: Batch, rows: pa.Table, world: World) -> pa.Table:
        """The rows of a batch, with a vector where `@embed` names a text and there was none."""
        return rows if self.embeddings is None else rows_with_vectors(batch, rows, self.catalog, self.embeddings, world)


def write_batches(job: WriteJob, unit: int, batches: Iterable[Batch]) -> Iterator[pa.RecordBatch]:
    """Write a unit's rows. Yields rows of `RESULT`: the fragments, the first error of each rank, what was read."""
    world = job.world()
    sinks: dict[str, Sink] = {}
    told: dict[tuple[int, str], OmniGraphError] = {}
    seen: dict[str, None] = {}
    spellings = None if job.strict else LegacyIds()
    read = 0
    try:
        for batch in batches:
            read += len(batch)
            key = batch.type.table_key
            seen.setdefault(key)
            ids = _ids(batch, world, told) if spellings is None else _permissive_ids(batch, world, spellings)
            if ids is None:
                continue
            sink = sinks.setdefault(key, Sink(job, unit, key))
            rows = job.with_vectors(batch, whole_rows(batch, ids), world)
            _check_values(job.catalog, key, rows, told)
            yield from sink.add(rows, minted=is_minted(batch))
    except OmniGraphError as error:
        told[VECTORS if isinstance(error, EmbeddingFailed) else READING, ""] = error
    else:
        for sink in sinks.values():
            yield from sink.close()
    for (rank, key), met in told.items():
        yield result(unit, "error", key, rank, pickle.dumps(met))
    if spellings:
        yield result(unit, "spelling", "", len(spellings.noted), _noted(spellings))
    yield result(unit, "read", "", read, json.dumps(list(seen)).encode())


def result(unit: int, kind: Kind, table: str, rows: int, body: bytes) -> pa.RecordBatch:
    """One row of `RESULT`."""
    return pa.record_batch([[unit], [kind], [table], [rows], [body]], schema=RESULT)


def partition_unit() -> int:
    """The number of the running task's partition: the unit that a partition of a frame is."""
    return task_number()


def _ids(batch: Batch, world: World, told: dict[tuple[int, str], OmniGraphError]) -> Column | None:
    """The ids, or None when they are wrong in a batch of edges, which are told after all has been read."""
    if not isinstance(batch.type, EdgeType):
        return strict_ids(batch, world)
    try:
        return strict_ids(batch, world)
    except OmniGraphError as error:
        told.setdefault((EDGE_IDS, ""), error)
        return None


def _permissive_ids(batch: Batch, world: World, spellings: LegacyIds) -> Column:
    """Edges follow the nodes that were renamed later, when all are known."""
    return permissive_edge_ids(batch, world) if isinstance(batch.type, EdgeType) else spellings.node_ids(batch, world)


def _noted(spellings: LegacyIds) -> bytes:
    found = [(each.type_name, each.old, each.new, *vars(each.place).values()) for each in spellings.noted]
    return json.dumps(found).encode()


def is_minted(batch: Batch) -> bool:
    """Whether no row of a batch came with an id, or a key that makes one."""
    return not batch.type.rules.key and batch.ids.null_count == len(batch)


def _check_values(catalog: Catalog, key: str, rows: pa.Table, told: dict[tuple[int, str], OmniGraphError]) -> None:
    if (VALUES, key) not in told:
        violation = next(value_violations(value_rules(catalog, key), rows), None)
        if violation is not None:
            told[VALUES, key] = violation


class Sink:
    """The rows of one type on their way to files of a fixed number of rows, and their numbers to the ledger."""

    def __init__(self, job: WriteJob, unit: int, key: str) -> None:
        self._target = job.targets[key]
        self._ledger = None if job.directory is None else HashRunWriter(job.directory)
        self._draws = draws_of(job.catalog, key, job.mode)
        self._sizes = job.sizes
        self._unit = unit
        self._key = key
        self._waiting: list[pa.Table] = []
        self._written = 0
        self._minted = True

    def add(self, rows: pa.Table, *, minted: bool) -> Iterator[pa.RecordBatch]:
        """Take rows, and tell of the files that became full."""
        if minted != self._minted and self._waiting:
            yield from self.finish()
        self._minted = minted
        self._waiting.append(rows)
        most = self._sizes.rows_per_file
        while sum(each.num_rows for each in self._waiting) >= most:
            whole = pa.concat_tables(self._waiting)
            self._waiting = [whole.slice(most)] if whole.num_rows > most else []
            yield from self._write(whole.slice(0, most))
        if sum(each.nbytes for each in self._waiting) >= self._sizes.buffer_bytes:
            yield from self.finish()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Write what still waits."""
        if self._waiting:
            rows, self._waiting = pa.concat_tables(self._waiting), []
            yield from self._write(rows)

    def close(self) -> Iterator[pa.RecordBatch]:
        """Write everything that waits: no more rows come."""
        yield from self.finish()
        if self._ledger is not None:
            yield from map(self._told, self._ledger.finish())

    def _note(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Ids that were made here are nobody else's: they are compared with none."""
        wanted = [each for each in self._draws if not (self._minted and each == IDS)]
        if self._ledger is not None:
            for drawn, numbers in draw(rows, wanted):
                yield from map(self._told, self._ledger.note(drawn, numbers))

    def _told(self, noted: HashRun) -> pa.RecordBatch:
        return result(self._unit, "noted", self._key, noted.count, pickle.dumps(noted))

    def _write(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        yield from self._note(rows)
        known = self._target.known
        first, self._written = self._written, self._written + rows.num_rows
        if known is None or self._minted:
            yield self._file(rows, first, ())
            return
        for places in _apart(rows.column(ID), known):
            if len(places):
                yield self._file(rows.take(row_numbers(places)), first, tuple(places.tolist()))

    def _file(self, rows: pa.Table, first: int, places: tuple[int, ...]) -> pa.RecordBatch:
        target = self._target
        options = None if target.options is None else dict(target.options)
        batches = iter(rows.combine_chunks().to_batches() if places else rows.to_batches())
        (fragment,) = write_rows(batches, target.uri, options, rows.schema, rows.num_rows, target.mode)
        body = {"fragment": json.dumps(fragment.to_json()), "minted": self._minted, "first": first, "places": places}
        return result(self._unit, "fragment", self._key, fragment.physical_rows, json.dumps(body).encode())


def _apart(ids: pa.ChunkedArray[Any], known: TableScan) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows whose ids are committed, and the others."""
    there = np.zeros(len(ids), dtype=bool)
    for batch in known.table().scan([ID], batch_size=65_536):
        there |= pc.is_in(ids, value_set=batch.column(ID)).to_numpy()
    return np.flatnonzero(there), np.flatnonzero(~there)
