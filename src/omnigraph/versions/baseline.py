"""A whole branch as records, together with the place in the change feed from which to keep them up to date."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.read.export import export_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from omnigraph.language.schema.catalog import Catalog
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.schema_contract import Schemas
    from omnigraph.store.tables import TableStore
    from omnigraph.versions.changes import ChangeFeed


@dataclass(frozen=True)
class Baseline:
    """One state of a branch. The changes after `cursor` are exactly those that the records do not have."""

    commit_id: str
    cursor: str
    snapshot: Snapshot
    tables: TableStore
    catalog: Catalog
    types: tuple[str, ...] | None = None

    def records(self) -> Iterator[bytes]:
        """Its nodes and edges as NDJSON, in pieces of whole lines; a load reads them."""
        return export_records(self.snapshot, self.tables, self.catalog, types=self.types)


def take_baseline(
    manifest: GraphManifest, feed: ChangeFeed, schemas: Schemas, types: Sequence[str] | None = None
) -> Baseline:
    """The newest state of the feed's branch, pinned now; later commits do not change it."""
    snapshot = manifest.snapshot(feed.branch)
    assert snapshot.commit_id is not None, "every branch has a commit: the first one of the graph"
    cursor = feed.cursor_after(snapshot.commit_id)
    chosen, catalog = None if types is None else tuple(types), schemas.of(snapshot.schema).catalog
    return Baseline(snapshot.commit_id, cursor, snapshot, manifest.stores.tables, catalog, chosen)
