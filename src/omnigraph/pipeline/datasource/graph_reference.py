"""A picklable reference to a graph, which each Spark process opens for itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from omnigraph.manifest.graph_manifest import GraphManifest, open_stores
from omnigraph.manifest.layout import MAIN
from omnigraph.storage.objects.location import parse_location
from omnigraph.transaction.recovery.outcome import sweep
from omnigraph.transaction.schemas import Schemas
from omnigraph.world import REAL

if TYPE_CHECKING:
    from omnigraph.catalog.catalog import Catalog
    from omnigraph.storage.objects.location import Location
    from omnigraph.storage.objects.store import ObjectStore


@dataclass(frozen=True)
class GraphReference:
    """The URI and storage options of a graph. Can be pickled; what it opens stays in the process."""

    uri: str
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def location(self) -> Location:
        """The parsed location of the graph."""
        return parse_location(self.uri, REAL, dict(self.settings))

    def manifest(self) -> GraphManifest:
        """The graph opened for writing, cached per process. Recovery of dead operations runs first."""
        return _opened(self)

    def catalog(self, branch: str = MAIN) -> Catalog:
        """The current catalog of a branch."""
        manifest = self.manifest()
        return Schemas(manifest).of(manifest.fresh_branch(branch).schema).catalog

    def objects(self) -> ObjectStore:
        """The object store of the graph's root."""
        return open_stores(self.location, REAL).objects

    def reader(self) -> tuple[GraphManifest, Schemas]:
        """The graph opened read-only, with its schemas."""
        manifest = GraphManifest(self.location, world=REAL, read_only=True)
        return manifest, Schemas(manifest)


@lru_cache(maxsize=8)
def _opened(reference: GraphReference) -> GraphManifest:
    manifest = GraphManifest(reference.location, world=REAL)
    sweep(manifest)
    return manifest
