"""Creates a new graph. The graph exists once its manifest does, and the manifest appears in one atomic step.

Whatever an initialiser that died has left behind is not a graph without a manifest: the next initialiser deletes it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.counters import guarded
from omnigraph.errors import (
    AlreadyInitialized,
    IncompleteGraph,
    InitializationClaimed,
    LeaseLost,
    NotAGraph,
    ObjectExists,
    OmniGraphError,
)
from omnigraph.failpoints import reach
from omnigraph.manifest.layout import (
    CURRENT,
    EDGES,
    FORMAT_VERSION_KEY,
    INIT_LEASE,
    MAIN,
    MANIFEST,
    NODES,
    SCHEMA_FILES,
    open_manifest,
    table_path,
)
from omnigraph.manifest.rows import SCHEMA, GraphCommit, GraphHead, Registration, Row, TableVersion, encode
from omnigraph.storage.lance.paths import version_file
from omnigraph.storage.objects.acquire import try_acquire
from omnigraph.storage.objects.lease import Lease
from omnigraph.storage.tables.immediate import set_config
from omnigraph.storage.tables.new_tables import create_table
from omnigraph.storage.tables.probe import ensure_safe

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from omnigraph.manifest.layout import Storage
    from omnigraph.world import World

_TABLE_NAME = re.compile(r"[0-9a-f]{16}")
LEASE_SECONDS = 300.0
# Every release up to 0.8 writes this into the configuration of a new manifest.
CONFIGURATION = {"table_version_management": "true"}


@dataclass(frozen=True)
class NewGraph:
    """The content of a new graph: the schema files by name, and the Arrow schema of each table by table key."""

    files: Mapping[str, bytes]
    tables: Mapping[str, pa.Schema]


def initialize(stores: Storage, new_graph: NewGraph, world: World) -> None:
    """Create the graph, or raise and leave no graph. Of several concurrent initialisers, one succeeds."""
    _refuse_existing(stores)
    _refuse_foreign_content_beforehand(stores)
    ensure_safe(stores.tables.location, world)
    lease = _acquire_lease(stores, world)
    reach("init.claimed")
    _take_possession(stores, lease)
    try:
        with guarded(lease.require):
            _build(stores, new_graph, lease, world)
    except LeaseLost as error:
        raise InitializationClaimed(
            stores.uri, attempt_id=lease.record.owner.id, owner="another process by now"
        ) from error
    except BaseException:
        _withdraw(stores, new_graph, lease)
        raise
    lease.release()


def _refuse_foreign_content_beforehand(stores: Storage) -> None:
    """Refuse foreign files before taking the lease, unless another initialiser may be writing them.

    The files are looked at first and the lease after them, so that a live initialiser is not missed.
    """
    try:
        _refuse_foreign_content(stores)
    except IncompleteGraph:
        if stores.objects.exists(INIT_LEASE):
            return
        _refuse_existing(stores)
        _refuse_foreign_content(stores)


def _take_possession(stores: Storage, lease: Lease) -> None:
    """Under the lease, verify that the location is free. Only the leftovers of a dead initialiser are deleted."""
    try:
        _refuse_existing(stores)
        if lease.inherited is not None:
            with guarded(lease.require):
                _clear_remains(stores)
        _refuse_foreign_content(stores)
    except (AlreadyInitialized, IncompleteGraph):
        lease.release()
        raise
    except BaseException:
        lease.abandon()
        raise


def _withdraw(stores: Storage, new_graph: NewGraph, lease: Lease) -> None:
    """Undo a failed initialisation: without a manifest nothing may remain, unless another process owns it by now.

    If that cannot be checked or done, the lease is abandoned and the next initialiser cleans up.
    """
    try:
        if not _has_manifest(stores):
            with guarded(lease.require):
                _clear_own(stores, new_graph)
        lease.release()
    except OmniGraphError:
        lease.abandon()


def _build(stores: Storage, new_graph: NewGraph, lease: Lease, world: World) -> None:
    for name, data in new_graph.files.items():
        stores.objects.create(name, data)
    for table_key, schema in new_graph.tables.items():
        create_table(stores.tables, table_path(table_key), schema)
    reach("init.before_manifest")
    lease.renew()
    _create_manifest(stores, new_graph, world)


def require_whole_graph(stores: Storage) -> None:
    """Raise `NotAGraph` or `IncompleteGraph` unless there is a manifest."""
    if _has_manifest(stores):
        return
    remains = [name for name in (INIT_LEASE, *SCHEMA_FILES) if stores.objects.exists(name)]
    if remains:
        raise IncompleteGraph(
            stores.uri,
            f"an initialisation of {stores.uri} did not finish: there is {', '.join(remains)} but no {MANIFEST}. "
            "Run init again to start over.",
        )
    raise NotAGraph(stores.uri, f"there is no graph at {stores.uri}: make one with init, or check the location.")


def _has_manifest(stores: Storage) -> bool:
    try:
        open_manifest(stores, MAIN)
    except NotAGraph:
        return False
    return True


def _refuse_existing(stores: Storage) -> None:
    if _has_manifest(stores):
        raise AlreadyInitialized(stores.uri)


def _acquire_lease(stores: Storage, world: World) -> Lease:
    outcome = try_acquire(stores.objects, INIT_LEASE, purpose="init", seconds=LEASE_SECONDS, world=world)
    if isinstance(outcome, Lease):
        return outcome
    owner = f"process {outcome.owner.process} on {outcome.owner.host}"
    raise InitializationClaimed(stores.uri, attempt_id=outcome.owner.id, owner=owner)


def _refuse_foreign_content(stores: Storage) -> None:
    """Refuse a location that holds files like a graph's where no initialiser has died: they belong to somebody."""
    found = [name for name in (*SCHEMA_FILES, NODES, EDGES) if stores.objects.exists(name)]
    if found:
        raise IncompleteGraph(
            stores.uri,
            f"{stores.uri} holds {', '.join(found)} but no {MANIFEST}: parts of a graph that was damaged, or another "
            "program's files. Choose another location, or move them away first.",
        )


def _clear_remains(stores: Storage) -> None:
    """Delete what a dead initialiser has left: the schema files, and tables under names that only this program uses."""
    if _has_manifest(stores):
        return
    for name in SCHEMA_FILES:
        stores.objects.delete(name)
    for prefix in (NODES, EDGES):
        names = {path.split("/")[1] for path in stores.objects.list_names(prefix)}
        for name in sorted(each for each in names if _TABLE_NAME.fullmatch(each)):
            stores.objects.delete_prefix(f"{prefix}/{name}")


def _clear_own(stores: Storage, new_graph: NewGraph) -> None:
    for name in new_graph.files:
        stores.objects.delete(name)
    for table_key in new_graph.tables:
        stores.objects.delete_prefix(table_path(table_key))


def _create_manifest(stores: Storage, new_graph: NewGraph, world: World) -> None:
    commit = GraphCommit(world.ulid(), MAIN, manifest_version=1, created_us=world.now_us())
    rows: list[Row] = []
    for table_key in new_graph.tables:
        path = table_path(table_key)
        file = stores.tables.location.object_path(version_file(path, None, 1))
        rows += [Registration(table_key, path), TableVersion(table_key, 1, None, 0, file)]
    rows.append(commit)
    # The format version is part of the first commit: a manifest without one would be taken for a v1 graph.
    schema_with_version = SCHEMA.with_metadata({FORMAT_VERSION_KEY: str(CURRENT)})
    try:
        # The head row has its own fragment from the beginning: see `active_fragment.py`.
        batches = [encode(each).cast(schema_with_version) for each in (rows, [GraphHead(MAIN, commit.id)])]
        table = create_table(stores.tables, MANIFEST, schema_with_version, batches)
    except ObjectExists as error:
        raise AlreadyInitialized(stores.uri) from error
    set_config(table, CONFIGURATION)
