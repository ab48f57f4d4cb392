"""What a change of schema still has to do once its commit is visible, and what is left to remove when it is not to be.

Every step can be cut short and done again, by the operation itself or by whoever recovers it.

Schema files of a change by another release that died, and of which no sidecar tells.

This program's changes always leave a sidecar. Others leave none when no table moves, and write the new files beside the
live ones before they publish. Which of the two schemas the graph is in, its tables say.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from omnigraph.catalog.arrow import put_schema, table_arrow_schemas
from omnigraph.errors import BranchNotFound, NotFound, SchemaContractDrift, SchemaError
from omnigraph.failpoints import reach
from omnigraph.language.schema.compile import compile_accepted
from omnigraph.language.stored.files import check_schema_files, schema_files
from omnigraph.manifest.layout import MAIN, SCHEMA_FILES, SCHEMA_IR, SCHEMA_SOURCE, SCHEMA_STATE, table_path
from omnigraph.manifest.publisher import NewVersion, PublishRequest
from omnigraph.manifest.rows import SchemaChange
from omnigraph.manifest.schema_files import STAGING, discard_staged, kept_text, live_files, promote, staged_files
from omnigraph.storage.tables.immediate import collect_old_versions
from omnigraph.storage.tables.staging import commit_staged, find_transaction, stage_overwrite
from omnigraph.transaction.intents.queue import list_sidecars
from omnigraph.world import encode_ulid

if TYPE_CHECKING:
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.transaction.intents.queue import QueueEntry
    from omnigraph.transaction.intents.sidecar import AddedTable, PlannedSchema, Sidecar

    Shape = dict[str, frozenset[str]]


def change_of(sidecar: Sidecar) -> SchemaChange | None:
    """What its commit says of the schema."""
    planned = sidecar.schema
    return None if planned is None else SchemaChange(planned.before, planned.after)


def new_tables(sidecar: Sidecar) -> list[NewVersion]:
    """The tables that come into the graph, as they are published."""
    return [
        NewVersion(each.table_key, each.version, each.row_count, each.table_branch, each.table_path)
        for each in sidecar.added
    ]


def schema_is_ready(manifest: GraphManifest, sidecar: Sidecar) -> bool:
    """Whether every new table has landed and the new schema files are staged."""
    confirmed = sidecar.schema is not None and sidecar.schema.confirmed
    return confirmed and all(_has_landed(manifest, each) for each in sidecar.added)


def finish_schema(manifest: GraphManifest, ticket: QueueEntry) -> None:
    """After the publish: other branches follow, the schema files come into place, and what is to be forgotten goes."""
    sidecar, planned = ticket.sidecar, ticket.sidecar.schema
    if planned is None:
        _finish_other_release(manifest, sidecar)
        return
    if sidecar.branch is not None:
        return  # a branch took a schema that the graph has; the files are main's
    for branch in planned.branches:
        _follow(manifest, sidecar, planned, branch)
    objects = manifest.stores.objects
    files, live = accepted_files(manifest, planned.after), live_files(objects)
    # Whoever has taken the operation over has done the rest, and others may have changed the schema since. The ticket
    # is looked at after the files: what changes them from here on makes the move fail.
    ticket.update()
    with ticket.guard():
        promote(objects, files, over=live)
    reach("schema.promoted")
    dropped = {table_path(each.table_key) for each in sidecar.dropped}
    for path in planned.purge:
        _purge(manifest, path, emptied=path in dropped, operation_id=sidecar.operation_id)


def undo_schema(manifest: GraphManifest, sidecar: Sidecar) -> None:
    """The change is not to be. Tables that it has made are nobody's; the next one of the name begins after them."""
    if sidecar.writer_kind == "SchemaApply":
        discard_staged(manifest.stores.objects)


def accepted_files(manifest: GraphManifest, schema_hash: str) -> dict[str, bytes]:
    """The three files of a schema that a commit names."""
    files = schema_files(kept_text(manifest.stores.objects, schema_hash).decode(), SCHEMA_SOURCE)
    return {SCHEMA_SOURCE: files.source, SCHEMA_IR: files.ir_json, SCHEMA_STATE: files.state_json}


def _finish_other_release(manifest: GraphManifest, sidecar: Sidecar) -> None:
    if sidecar.writer_kind != "SchemaApply":
        return
    staged = staged_files(manifest.stores.objects)
    if staged is not None:
        promote(manifest.stores.objects, staged, over=live_files(manifest.stores.objects))


def _has_landed(manifest: GraphManifest, added: AddedTable) -> bool:
    try:
        table = manifest.stores.tables.open_newest(added.table_path, added.table_branch)
    except NotFound:
        return False
    if added.transaction is None or table.version != added.version:
        return False
    return find_transaction(table, added.transaction, after=added.version - 1) == added.version


def _follow(manifest: GraphManifest, sidecar: Sidecar, planned: PlannedSchema, branch: str) -> None:
    """Another branch takes the same step, with a commit of its own; one that has gone its own way is left alone."""
    try:
        line = manifest.fresh_line(branch)
    except BranchNotFound:
        return
    if line.state.schema not in (None, planned.before):
        return
    assert sidecar.commit is not None
    digest = sha256(f"follow {branch} {sidecar.operation_id}".encode()).digest()
    request = PublishRequest(
        commit_id=encode_ulid(sidecar.started_at // 1_000, int.from_bytes(digest[:10])),
        created_at=sidecar.commit.created_at,
        versions=new_tables(sidecar),
        actor=sidecar.actor,
        schema=change_of(sidecar),
    )
    manifest.publish(request, branch=branch)


def _purge(manifest: GraphManifest, path: str, *, emptied: bool, operation_id: str) -> None:
    """Leave nothing of a table but its newest version, and nothing in that when the table is gone from the graph."""
    table = manifest.stores.tables.open_newest(path)
    if emptied and table.count_rows():
        staged = stage_overwrite(table, put_schema(table.schema).empty_table())
        table = commit_staged(staged, operation_id=operation_id).table
    collect_old_versions(table, keep=1)
    manifest.stores.tables.forget(path)


def settle_leftovers(manifest: GraphManifest) -> None:
    """Move files into place that the tables are in already, and remove those that they are not in.

    Where both schemas fit, nothing that they differ in was ever used: the change is taken back.
    """
    objects = manifest.stores.objects
    if not objects.exists(f"{SCHEMA_STATE}{STAGING}") or _is_told_of(manifest):
        return
    staged = staged_files(objects)
    if staged is None:
        return
    if not _is_whole(manifest, staged):
        # A writer that slept has written one of them after its change was taken back.
        discard_staged(objects)
        return
    if objects.exists(f"{SCHEMA_SOURCE}{STAGING}"):
        stored, live = _stored(manifest), _shape(manifest, objects.read(SCHEMA_SOURCE))
        if stored == live:
            discard_staged(objects)
            return
        if stored != _shape(manifest, staged[SCHEMA_SOURCE]):
            raise SchemaContractDrift(
                manifest.stores.uri,
                f"{manifest.stores.uri}: a change of schema did not finish, and the tables are in neither schema. "
                f"Restore the graph from a copy, or put the files that fit in place of *{STAGING} and the live ones.",
            )
    # The source is moved first: without it among the staged files, the move had begun.
    promote(objects, staged, over=live_files(objects))


def _is_told_of(manifest: GraphManifest) -> bool:
    """Whether a sidecar tells of a change: then whoever holds or recovers it deals with the files."""
    return any(each.sidecar.writer_kind == "SchemaApply" for each in list_sidecars(manifest.stores.objects))


def _is_whole(manifest: GraphManifest, files: dict[str, bytes]) -> bool:
    try:
        check_schema_files(*(files[name] for name in SCHEMA_FILES), uri=manifest.stores.uri)
    except SchemaContractDrift:
        return False
    return True


def _stored(manifest: GraphManifest) -> Shape:
    tables = manifest.stores.tables
    return {each.table_key: frozenset(tables.open(each.pin).schema.names) for each in manifest.snapshot(MAIN)}


def _shape(manifest: GraphManifest, source: bytes) -> Shape:
    try:
        schemas = table_arrow_schemas(compile_accepted(source.decode(), SCHEMA_SOURCE))
    except (SchemaError, UnicodeDecodeError) as error:
        raise SchemaContractDrift(manifest.stores.uri, f"{manifest.stores.uri}: {error}") from error
    return {key: frozenset(schema.names) for key, schema in schemas.items()}
