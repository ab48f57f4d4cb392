"""Writes typed rows as Lance fragments, in tasks; the only time that a bulk load reads its input.

Every task derives ids, checks rules on single values and writes one series of files per type, in memory bounded by
`Sizes`. Errors in the input are returned as data, so that the runner does not retry a task because of them.
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
from omnigraph.kernels.arrays import ID, RowBuffer
from omnigraph.kernels.equality import row_numbers
from omnigraph.load.operation import rows_with_vectors
from omnigraph.load.rows import LegacyIds, permissive_edge_ids, whole_rows
from omnigraph.storage.lance.data_files import write_rows
from omnigraph.tasks.hash_runs import IDS, HashRunWriter, compute_hashes, hash_columns_of
from omnigraph.tasks.runner import BYTES, INT, LONG, TEXT, task_number
from omnigraph.transaction.constraints.evaluate import value_violations
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

Kind = Literal["fragment", "hash_run", "error", "reject", "legacy_ids", "read"]
RESULT = pa.schema([("unit", INT), ("kind", TEXT), ("table", TEXT), ("rows", LONG), ("body", BYTES)])
# The rank of an error determines which one is reported, as in the embedded loader: reading first, then the ids of
# edges, then failed embeddings, then rules on values.
READING, EDGE_IDS, VECTORS, VALUES = range(4)


@dataclass(frozen=True)
class FragmentTarget:
    """Where the rows of a type are written. Rows that replace one of `committed`, if set, get files of their own."""

    uri: str
    options: Mapping[str, str] | None
    mode: Literal["append", "overwrite"]
    committed: TableScan | None = None


@dataclass(frozen=True)
class WriteJob:
    """The parameters of all tasks. `directory` is a shared directory for hash runs, if there is one.

    `embeddings` computes missing vectors and may contain a secret.
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
        """The world of a task: its own clock and randomness, and the driver's settings for object stores."""
        here = World()
        return World(environ={**here.environ, **self.settings})

    def with_vectors(self, batch: Batch, rows: pa.Table, world: World) -> pa.Table:
        """The rows of a batch with missing `@embed` vectors computed."""
        return rows if self.embeddings is None else rows_with_vectors(batch, rows, self.catalog, self.embeddings, world)


def write_batches(job: WriteJob, unit: int, batches: Iterable[Batch]) -> Iterator[pa.RecordBatch]:
    """Write the rows of a unit. Yields batches of schema `RESULT`: fragments, the first error per rank, rows read."""
    world = job.world()
    sinks: dict[str, Sink] = {}
    errors: dict[tuple[int, str], OmniGraphError] = {}
    seen: dict[str, None] = {}
    legacy_ids = None if job.strict else LegacyIds()
    read = 0
    try:
        for batch in batches:
            read += len(batch)
            key = batch.type.table_key
            seen.setdefault(key)
            ids = _ids(batch, world, errors) if legacy_ids is None else _permissive_ids(batch, world, legacy_ids)
            if ids is None:
                continue
            sink = sinks.setdefault(key, Sink(job, unit, key))
            rows = job.with_vectors(batch, whole_rows(batch, ids), world)
            _check_values(job.catalog, key, rows, errors)
            yield from sink.add(rows, minted=is_minted(batch))
    except OmniGraphError as error:
        errors[VECTORS if isinstance(error, EmbeddingFailed) else READING, ""] = error
    else:
        for sink in sinks.values():
            yield from sink.close()
    for (rank, key), met in errors.items():
        yield result(unit, "error", key, rank, pickle.dumps(met))
    if legacy_ids:
        yield result(unit, "legacy_ids", "", len(legacy_ids.recorded), _encoded_legacy_ids(legacy_ids))
    yield result(unit, "read", "", read, json.dumps(list(seen)).encode())


def result(unit: int, kind: Kind, table: str, rows: int, body: bytes) -> pa.RecordBatch:
    """One row of `RESULT`."""
    return pa.record_batch([[unit], [kind], [table], [rows], [body]], schema=RESULT)


def partition_unit() -> int:
    """The unit number of the running task: the index of its partition in the Spark frame."""
    return task_number()


def _ids(batch: Batch, world: World, errors: dict[tuple[int, str], OmniGraphError]) -> Column | None:
    """The ids; None if a batch of edges has wrong ids. Those errors rank after all reading errors."""
    if not isinstance(batch.type, EdgeType):
        return strict_ids(batch, world)
    try:
        return strict_ids(batch, world)
    except OmniGraphError as error:
        errors.setdefault((EDGE_IDS, ""), error)
        return None


def _permissive_ids(batch: Batch, world: World, legacy_ids: LegacyIds) -> Column:
    """The ids under the permissive grammar. Legacy endpoints are rewritten later, when all nodes are known."""
    return permissive_edge_ids(batch, world) if isinstance(batch.type, EdgeType) else legacy_ids.node_ids(batch, world)


def _encoded_legacy_ids(legacy_ids: LegacyIds) -> bytes:
    found = [(each.type_name, each.old, each.new, *vars(each.position).values()) for each in legacy_ids.recorded]
    return json.dumps(found).encode()


def is_minted(batch: Batch) -> bool:
    """Whether all ids of a batch are minted: no row has an id, and the type has no key."""
    return not batch.type.rules.key and batch.ids.null_count == len(batch)


def _check_values(catalog: Catalog, key: str, rows: pa.Table, errors: dict[tuple[int, str], OmniGraphError]) -> None:
    if (VALUES, key) not in errors:
        violation = next(value_violations(value_rules(catalog, key), rows), None)
        if violation is not None:
            errors[VALUES, key] = violation


class Sink:
    """Writes the rows of one type to files of a fixed number of rows, and their hashes to the hash run writer."""

    def __init__(self, job: WriteJob, unit: int, key: str) -> None:
        self._target = job.targets[key]
        self._hash_runs = None if job.directory is None else HashRunWriter(job.directory)
        self._hash_columns = hash_columns_of(job.catalog, key, job.mode)
        self._unit = unit
        self._key = key
        self._buffer = RowBuffer(job.sizes.rows_per_file, job.sizes.buffer_bytes)
        self._written = 0
        self._minted = True

    def add(self, rows: pa.Table, *, minted: bool) -> Iterator[pa.RecordBatch]:
        """Buffer rows. Yields results for the files that became full."""
        if minted != self._minted:
            yield from self.finish()
        self._minted = minted
        for full in self._buffer.add(rows):
            yield from self._write(full)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Write the buffered rows."""
        for rows in self._buffer.drain():
            yield from self._write(rows)

    def close(self) -> Iterator[pa.RecordBatch]:
        """Write the buffered rows and finish the hash runs."""
        yield from self.finish()
        if self._hash_runs is not None:
            yield from map(self._report, self._hash_runs.finish())

    def _write_hashes(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Write hashes of the rows. Minted ids are unique and need no comparison, so they are left out."""
        wanted = [each for each in self._hash_columns if not (self._minted and each == IDS)]
        if self._hash_runs is not None:
            for columns, hashes in compute_hashes(rows, wanted):
                yield from map(self._report, self._hash_runs.add(columns, hashes))

    def _report(self, run: HashRun) -> pa.RecordBatch:
        return result(self._unit, "hash_run", self._key, run.count, pickle.dumps(run))

    def _write(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        yield from self._write_hashes(rows)
        committed = self._target.committed
        first, self._written = self._written, self._written + rows.num_rows
        if committed is None or self._minted:
            yield self._file(rows, first, ())
            return
        for rows_found in _split_by_presence(rows.column(ID), committed):
            if len(rows_found):
                yield self._file(rows.take(row_numbers(rows_found)), first, tuple(rows_found.tolist()))

    def _file(self, rows: pa.Table, first: int, positions: tuple[int, ...]) -> pa.RecordBatch:
        target = self._target
        options = None if target.options is None else dict(target.options)
        batches = iter(rows.combine_chunks().to_batches() if positions else rows.to_batches())
        (fragment,) = write_rows(batches, target.uri, options, rows.schema, rows.num_rows, target.mode)
        body = {
            "fragment": json.dumps(fragment.to_json()),
            "minted": self._minted,
            "first": first,
            "positions": positions,
        }
        return result(self._unit, "fragment", self._key, fragment.physical_rows, json.dumps(body).encode())


def _split_by_presence(ids: pa.ChunkedArray[Any], committed: TableScan) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The positions of rows whose ids are committed, and of all other rows."""
    there = np.zeros(len(ids), dtype=bool)
    for batch in committed.table().scan([ID], batch_size=65_536):
        there |= pc.is_in(ids, value_set=batch.column(ID)).to_numpy()
    return np.flatnonzero(there), np.flatnonzero(~there)
