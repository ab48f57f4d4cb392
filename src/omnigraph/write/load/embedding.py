"""A step of a load, after reading and before validation: vectors are made from the texts that `@embed` names."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.embeddings.columns import fill_vectors
from omnigraph.language.schema.arrow import node_arrow_schema
from omnigraph.language.schema.catalog import NodeType
from omnigraph.write.load.rows import Rows

if TYPE_CHECKING:
    from omnigraph.embeddings.embeddings import Embeddings
    from omnigraph.language.schema.catalog import Catalog, Property
    from omnigraph.world import World
    from omnigraph.write.load.batches import Batch
    from omnigraph.write.load.load import LoadedRows


def vectors_may_be_missing(catalog: Catalog) -> Catalog:
    """The same types, for reading rows whose vectors are made later: a vector that `@embed` fills is not required."""
    nodes = {
        name: replace(node, properties={key: _relaxed(each) for key, each in node.properties.items()})
        for name, node in catalog.nodes.items()
    }
    return replace(catalog, nodes=nodes)


def rows_with_vectors(batch: Batch, rows: pa.Table, catalog: Catalog, embeddings: Embeddings, world: World) -> pa.Table:
    """The whole rows of a batch, as its table stores them, with the vectors that were missing."""
    return _filled(Rows(batch.type, rows), catalog, embeddings, world).table


def with_vectors(loaded: LoadedRows, catalog: Catalog, embeddings: Embeddings, world: World) -> LoadedRows:
    """The same rows, each with a vector where it had a text and none. A vector that was given stays."""
    rows = {key: _filled(each, catalog, embeddings, world) for key, each in loaded.rows.items()}
    return replace(loaded, rows=rows)


def _filled(rows: Rows, catalog: Catalog, embeddings: Embeddings, world: World) -> Rows:
    if not isinstance(rows.type, NodeType):
        return rows
    kind = catalog.nodes[rows.type.name]
    made = fill_vectors(rows.table, kind, embeddings, world)
    return replace(rows, type=kind, table=pa.Table.from_arrays(made.columns, schema=node_arrow_schema(kind)))


def _relaxed(each: Property) -> Property:
    return each if each.embed_source is None else replace(each, type=replace(each.type, nullable=True))
