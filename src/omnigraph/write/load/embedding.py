"""A step of a load, after reading and before validation: vectors are made from the texts that `@embed` names."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.embeddings.columns import fill_vectors

if TYPE_CHECKING:
    from omnigraph.embeddings.embeddings import Embeddings
    from omnigraph.world import World
    from omnigraph.write.load.load import LoadedRows


def with_vectors(loaded: LoadedRows, embeddings: Embeddings, world: World) -> LoadedRows:
    """The same rows, each with a vector where it had a text and none. A vector that was given stays."""
    rows = {
        key: replace(each, table=fill_vectors(each.table, each.type, embeddings, world))
        for key, each in loaded.rows.items()
    }
    return replace(loaded, rows=rows)
