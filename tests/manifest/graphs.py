"""Graphs for these tests: the example schema A of the format's description, and publishes on top of it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.manifest.compaction import ManifestPolicy
from omnigraph.manifest.create import NewGraph
from omnigraph.manifest.graph_manifest import GraphManifest, create_manifest
from omnigraph.manifest.layout import MAIN, MANIFEST, physical_branch, table_path
from omnigraph.manifest.publisher import NewVersion, PublishRequest
from omnigraph.storage.objects.location import parse_location
from omnigraph.world import REAL, World

if TYPE_CHECKING:
    from pathlib import Path

    import lance

    from omnigraph.manifest.publisher import Published
    from omnigraph.storage.objects.location import Location

AUTHOR, PAPER, WROTE = "node:Author", "node:Paper", "edge:Wrote"
AUTHORS, PAPERS, WRITINGS = "nodes/01d32b35baa3b676", "nodes/da89d00e1b71df59", "edges/66e8ac1738104576"

_ID = pa.field("id", pa.utf8(), nullable=False)
SCHEMAS = {
    AUTHOR: pa.schema([_ID, pa.field("born", pa.int32()), pa.field("handle", pa.utf8(), nullable=False)]),
    PAPER: pa.schema([_ID, pa.field("doi", pa.utf8(), nullable=False)]),
    WROTE: pa.schema(
        [
            _ID,
            pa.field("src", pa.utf8(), nullable=False),
            pa.field("dst", pa.utf8(), nullable=False),
            pa.field("day", pa.date32()),
        ]
    ),
}
FILES = {
    "_schema.pg": b"node Author { handle: String @key  born: I32? }\n",
    "_schema.ir.json": b"{}",
    "__schema_state.json": b"{}",
}
BLUEPRINT = NewGraph(FILES, SCHEMAS)
# Tidies so often that a short test sees it: every few publishes, keeping hardly any old version.
EAGER = ManifestPolicy(small_fragments=3, rows_per_fragment=24, versions=6, keep_versions=3, commit_grace_seconds=0)
NEVER = ManifestPolicy(small_fragments=10**9, active_rows=10**9)

_numbers = itertools.count()


def blueprint_of(tables: int) -> NewGraph:
    """A schema with this many node types, `T0`, `T1`, ..."""
    return NewGraph(FILES, {f"node:T{number}": SCHEMAS[PAPER] for number in range(tables)})


def create(uri: str, new_graph: NewGraph = BLUEPRINT, world: World = REAL) -> GraphManifest:
    """A new graph, open."""
    return create_manifest(parse_location(uri, REAL), new_graph, world)


def reopen(uri: str, *, read_only: bool = False, manifest_policy: ManifestPolicy | None = None) -> GraphManifest:
    """The graph at a URI, with nothing warm."""
    return GraphManifest(
        parse_location(uri, REAL), world=REAL, read_only=read_only, manifest_policy=manifest_policy or ManifestPolicy()
    )


def at(uri: str) -> Location:
    """A URI as the store takes it."""
    return parse_location(uri, REAL)


def request(*versions: NewVersion, **more: object) -> PublishRequest:
    """A publish of these versions under a new commit id."""
    fields = {"commit_id": REAL.ulid(), "created_at": REAL.now_us(), **more}
    return PublishRequest(versions=versions, **fields)  # type: ignore[arg-type]


def version(table_key: str, number: int, *, rows: int = 1, branch: str | None = None) -> NewVersion:
    """A version of a table; the manifest does not look whether the table itself is there."""
    return NewVersion(table_key, number, rows, branch=branch, path=table_path(table_key))


def publish_next(graph: GraphManifest, table_key: str = AUTHOR, *, branch: str = MAIN, **more: object) -> Published:
    """Publish the version after the newest of a table."""
    newest = graph.snapshot(branch)[table_key].version
    new = version(table_key, newest + 1, rows=next(_numbers), branch=physical_branch(branch))
    return graph.publish(request(new, **more), branch=branch)


def manifest_rows(graph: GraphManifest, branch: str = MAIN) -> dict[str, dict[str, object]]:
    """The rows of a branch's manifest by key, as stored; two rows of one key fail here."""
    rows = dataset_of(graph, branch).to_table().to_pylist()
    found = {row["object_id"]: row for row in rows}
    assert len(found) == len(rows), "a key occurs twice"
    return found


def dataset_of(graph: GraphManifest, branch: str = MAIN) -> lance.LanceDataset:
    """A fresh Lance handle on a branch's manifest."""
    return graph.stores.tables.open_newest(MANIFEST, physical_branch(branch)).handle


def chain(graph: GraphManifest, branch: str = MAIN) -> list[str]:
    """Commit ids from the head back to genesis; fails when the history is not one line through every commit."""
    lineage = graph.lineage(branch)
    walked = [commit.id for commit in lineage.first_parents()]
    assert sorted(walked) == sorted(lineage.commits), "the history is not one line"
    return walked


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, hidden ones too, with its bytes."""
    return {str(each.relative_to(folder)): each.read_bytes() for each in sorted(folder.rglob("*")) if each.is_file()}
