"""Filling the vectors of rows from their texts. Pure on Arrow, so that any engine can take it as a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.language.schema.arrow import arrow_type
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    vectors, texts = rows.column(declared.name), rows.column(declared.embed_source or "")
    lengths: Any = pc.utf8_length(texts)
    missing: Any = pc.and_(pc.is_null(vectors), pc.greater(lengths, pa.scalar(0, lengths.type)).fill_null(False))
    places = np.flatnonzero(missing.to_numpy())
    if not len(places):
        return vectors
    wanted: list[Any] = texts.take(places).to_pylist()
    made = embeddings.of_property(wanted, declared, world=world)
    kind: Any = arrow_type(declared.type)
    new = pa.FixedSizeListArray.from_arrays(pa.array(made.reshape(-1), pa.float32()), type=kind)
    order = np.full(rows.num_rows, -1)
    order[places] = np.arange(len(places))
    choice = np.where(order < 0, np.arange(rows.num_rows), rows.num_rows + order)
    return pa.chunked_array([*vectors.cast(kind).chunks, new], kind).take(choice)
