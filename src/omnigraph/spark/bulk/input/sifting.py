"""The one pass over the input when bad rows are set aside: a chunk with one is halved until it is found."""

from __future__ import annotations

import json
import pickle
from dataclasses import asdict
from typing import TYPE_CHECKING

from omnigraph.embeddings.columns import expect_vectors
from omnigraph.errors import ConstraintViolation, InvalidRecord, OmniGraphError
from omnigraph.spark.bulk.input.input_errors import renumbered
from omnigraph.spark.bulk.input.rejects import Reject, reject_of, require_within
from omnigraph.spark.bulk.pieces.writing import READING, Sink, is_minted, result
from omnigraph.write.constraints.rules import type_of, value_rules
from omnigraph.write.constraints.values import value_violations
from omnigraph.write.load.identity import strict_ids
from omnigraph.write.load.rows import whole_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from omnigraph.language.schema.catalog import Catalog
    from omnigraph.spark.bulk.input.chunks import Chunk
    from omnigraph.spark.bulk.pieces.writing import WriteJob
    from omnigraph.world import World
    from omnigraph.write.load.batches import Batch, GraphType

    Made = list[tuple[Batch, pa.Table]]


def write_sifted(job: WriteJob, unit: int, chunks: Iterable[Chunk], limit: int) -> Iterator[pa.RecordBatch]:
    """Write the good rows of a unit. Yields rows of `RESULT`; more bad rows than `limit` are an error."""
    sinks: dict[str, Sink] = {}
    rejects: list[Reject] = []
    read, world = 0, job.world()
    try:
        for chunk in chunks:
            read += len(chunk)
            for batch, rows in sifted(job.catalog, chunk, rejects, world):
                key = batch.type.table_key
                sink = sinks.setdefault(key, Sink(job, unit, key))
                whole = job.with_vectors(batch, rows, world)
                yield from sink.add(whole, minted=is_minted(batch))
            require_within(rejects, limit)
        for sink in sinks.values():
            yield from sink.close()
    except OmniGraphError as error:
        yield result(unit, "error", "", READING, pickle.dumps(error))
    for each in rejects:
        yield result(unit, "reject", "", each.number, json.dumps(asdict(each)).encode())
    yield result(unit, "read", "", read, json.dumps(list(sinks)).encode())


def sifted(catalog: Catalog, chunk: Chunk, rejects: list[Reject], world: World) -> Made:
    """The good rows of a chunk; the bad ones are added to the rejects. Vectors that are made later count as there."""
    try:
        return _made(catalog, chunk, world)
    except (InvalidRecord, ConstraintViolation) as error:
        if len(chunk) > 1:
            middle = len(chunk) // 2
            halves = (chunk.part(0, middle), chunk.part(middle, len(chunk)))
            return [each for half in halves for each in sifted(catalog, half, rejects, world)]
        placed = renumbered(error, chunk.place.source, chunk.place.unit, chunk.place.number)
        rejects.append(reject_of(placed, chunk.place, chunk.shown()))
        return []


def _made(catalog: Catalog, chunk: Chunk, world: World) -> Made:
    made = []
    for batch in chunk.read():
        rows, key = whole_rows(batch, strict_ids(batch, world)), batch.type.table_key
        kind = type_of(catalog, key)
        for violation in value_violations(value_rules(catalog, key), _expected(rows, batch.type, kind)):
            raise violation
        made.append((batch, rows))
    return made


def _expected(rows: pa.Table, read_as: GraphType, kind: GraphType) -> pa.Table:
    """The rows as they will be: a load that makes vectors reads the type as one that may have none."""
    return rows if read_as == kind else expect_vectors(rows, kind)
