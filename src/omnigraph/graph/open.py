"""`omnigraph.init` and `omnigraph.open`; and the components of an open graph, for the packages above."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.arguments import checked_arguments, text_of
from omnigraph.cache import set_cache_bytes
from omnigraph.graph.graph import Graph
from omnigraph.manifest.graph_manifest import GraphManifest, create_manifest
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.tables.compaction import MINOR_COMPACTION
from omnigraph.transaction.schemas import new_graph
from omnigraph.world import REAL, World

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from omnigraph.embeddings.embedder import Embeddings
    from omnigraph.transaction.schemas import Schemas


@dataclass(frozen=True)
class GraphComponents:
    """The components of an open graph. `embeddings` returns its provider, or raises if none is configured."""

    manifest: GraphManifest
    schemas: Schemas
    embeddings: Callable[[], Embeddings]


def components_of(graph: Graph) -> GraphComponents:
    """The components of a graph, for internal callers that work below `Graph`."""
    return GraphComponents(graph._manifest, graph._schemas, graph._embeddings)


@checked_arguments
def init(
    uri: str | os.PathLike[str],
    *,
    schema: str | Path,
    actor: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    auto_compact: bool = True,
    cache_bytes: int | None = None,
    world: World = REAL,
) -> Graph:
    """Create a graph. `schema` is the text of a `.pg` schema, or a `Path` to one. Refuses an existing graph.

    `cache_bytes` is the memory that all open graphs of the process may use together to cache what they read.
    """
    source, name = text_of(schema), str(schema) if isinstance(schema, Path) else "<schema>"
    location = parse_location(uri, world, storage_options)
    set_cache_bytes(cache_bytes, world.environ)
    minor_compaction = MINOR_COMPACTION if auto_compact else None
    return Graph(
        create_manifest(location, new_graph(source, name), world, minor_compaction=minor_compaction), actor=actor
    )


@checked_arguments
def open_graph(
    uri: str | os.PathLike[str],
    *,
    read_only: bool = False,
    actor: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    auto_compact: bool = True,
    cache_bytes: int | None = None,
    world: World = REAL,
) -> Graph:
    """Open a graph. For writing, interrupted operations are completed or rolled back first; read-only never writes.

    `auto_compact`: some writes also compact the small fragments of earlier ones, within their own commit.
    `cache_bytes` is the memory that all open graphs of the process may use together to cache what they read.
    """
    location = parse_location(uri, world, storage_options)
    set_cache_bytes(cache_bytes, world.environ)
    minor_compaction = MINOR_COMPACTION if auto_compact else None
    manifest = GraphManifest(location, read_only=read_only, world=world, minor_compaction=minor_compaction)
    if not read_only:
        from omnigraph.transaction.recovery.outcome import sweep

        sweep(manifest)
    return Graph(manifest, actor=actor)
