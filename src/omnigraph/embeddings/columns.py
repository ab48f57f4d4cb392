"""Filling the vectors of rows from their texts. Pure on Arrow, so that any engine can take it as a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.language.schema.arrow import arrow_type
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from omnigraph.embeddings.embeddings import Embeddings
    from omnigraph.language.schema.catalog import EdgeType, NodeType, Property
    from omnigraph.world import World


def fill_vectors(rows: pa.Table, kind: NodeType | EdgeType, embeddings: Embeddings, world: World = REAL) -> pa.Table:
    """The rows with a vector wherever `@embed` names a text and the row has that text and no vector yet."""
    for each in kind.properties.values():
        if each.embed_source in rows.column_names and each.name in rows.column_names:
            at = rows.column_names.index(each.name)
            rows = rows.set_column(at, rows.schema.field(at), _filled(rows, each, embeddings, world))
    return rows


def expect_vectors(rows: pa.Table, kind: NodeType | EdgeType) -> pa.Table:
    """The rows with a zero vector wherever `fill_vectors` would make one: for checks before anybody is asked."""
    for each in kind.properties.values():
        if each.embed_source in rows.column_names and each.name in rows.column_names:
            at, places = rows.column_names.index(each.name), _missing(rows, each)
            zeros = np.zeros((len(places), each.type.dimensions or 0), np.float32)
            rows = rows.set_column(at, rows.schema.field(at), _with(rows, each, places, zeros))
    return rows


@dataclass(frozen=True)
class EmbeddingStep:
    """`fill_vectors` over a stream of batches: the body of a Spark `mapInArrow`. It is sent with its provider."""

    kind: NodeType
    embeddings: Embeddings

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Each batch with its vectors."""
        for batch in batches:
            yield from fill_vectors(pa.Table.from_batches([batch]), self.kind, self.embeddings).to_batches()


def _filled(rows: pa.Table, declared: Property, embeddings: Embeddings, world: World) -> pa.ChunkedArray[Any]:
    places = _missing(rows, declared)
    if not len(places):
        return rows.column(declared.name)
    wanted: list[Any] = rows.column(declared.embed_source or "").take(places).to_pylist()
    return _with(rows, declared, places, embeddings.of_property(wanted, declared, world=world))


def _missing(rows: pa.Table, declared: Property) -> NDArray[np.int64]:
    """The rows that have a text and no vector."""
    vectors, texts = rows.column(declared.name), rows.column(declared.embed_source or "")
    lengths: Any = pc.utf8_length(texts)
    missing: Any = pc.and_(pc.is_null(vectors), pc.greater(lengths, pa.scalar(0, lengths.type)).fill_null(False))
    return np.flatnonzero(missing.to_numpy())


def _with(
    rows: pa.Table, declared: Property, places: NDArray[np.int64], made: NDArray[np.float32]
) -> pa.ChunkedArray[Any]:
    vectors, kind = rows.column(declared.name), cast("Any", arrow_type(declared.type))
    new = pa.FixedSizeListArray.from_arrays(pa.array(made.reshape(-1), pa.float32()), type=kind)
    order = np.full(rows.num_rows, -1)
    order[places] = np.arange(len(places))
    choice = np.where(order < 0, np.arange(rows.num_rows), rows.num_rows + order)
    return pa.chunked_array([*vectors.cast(kind).chunks, new], kind).take(choice)
