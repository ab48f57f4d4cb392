"""Finishes a schema change once its commit is visible, and removes what it left behind when it is undone.

Every step may be interrupted and repeated, by the operation itself or by whoever recovers it.

`resolve_staged_files` deals with schema files that another release left when it died without a sidecar. Changes of this
program always leave a sidecar. Other releases leave none when no table changes, and write the new files beside the live
ones before they publish. The columns of the tables show which of the two schemas the graph is in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.catalog.arrow import put_schema, table_arrow_schemas
from omnigraph.errors import BranchNotFound, NotFound, RecoveryRequired, SchemaContractDrift, SchemaError
from omnigraph.failpoints import reach
from omnigraph.language.schema.compile import compile_accepted
from omnigraph.language.stored.files import check_schema_files, schema_files
from omnigraph.manifest.layout import MAIN, SCHEMA_FILES, SCHEMA_IR, SCHEMA_SOURCE, SCHEMA_STATE, table_path
from omnigraph.manifest.publisher import PublishRequest
from omnigraph.manifest.schema_files import STAGING, discard_staged, live_files, promote, read_schema_text, staged_files
from omnigraph.storage.tables.immediate import collect_old_versions
from omnigraph.storage.tables.staging import commit_staged, find_transaction, stage_overwrite
from omnigraph.transaction.intents.queue import list_sidecars

if TYPE_CHECKING:
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.transaction.intents.queue import QueueEntry
    from omnigraph.transaction.intents.sidecar import AddedTable, PlannedSchema, Sidecar

    Columns = dict[str, frozenset[str]]


def schema_is_ready(manifest: GraphManifest, sidecar: Sidecar) -> bool:
    """Whether every new table is committed and the new schema files are staged."""
    confirmed = sidecar.schema is not None and sidecar.schema.confirmed
    return confirmed and all(_is_committed(manifest, each) for each in sidecar.added)


def finish_schema(manifest: GraphManifest, queue_entry: QueueEntry) -> None:
    """After the publish: let other branches follow, move the schema files into place, and purge old versions."""
    sidecar, planned = queue_entry.sidecar, queue_entry.sidecar.schema
    if planned is None:
        _finish_other_release(manifest, sidecar)
        return
    if sidecar.branch is not None:
        return  # a branch adopted a schema that the graph has; the files are main's
    for branch in planned.branches:
        _follow(manifest, sidecar, planned, branch)
    objects = manifest.stores.objects
    files, live = accepted_files(manifest, planned.after), live_files(objects)
    # If another process has taken the operation over, it has done the rest, and the schema may have changed since. The
    # lease is checked after the files were read: any later change to them makes the move fail.
    queue_entry.update()
    with queue_entry.guard():
        promote(objects, files, over=live)
    reach("schema.promoted")
    dropped = {table_path(each.table_key) for each in sidecar.dropped}
    for path in planned.purge:
        _purge(manifest, path, emptied=path in dropped, operation_id=sidecar.operation_id)


def undo_schema(manifest: GraphManifest, sidecar: Sidecar) -> None:
    """Remove the staged schema files.

    Tables that the change created are unreferenced; a later table of the same name starts after their versions.
    """
    if sidecar.writer_kind == "SchemaApply":
        discard_staged(manifest.stores.objects)


def accepted_files(manifest: GraphManifest, schema_hash: str) -> dict[str, bytes]:
    """The three files of a schema that a commit names."""
    files = schema_files(read_schema_text(manifest.stores.objects, schema_hash).decode(), SCHEMA_SOURCE)
    return {SCHEMA_SOURCE: files.source, SCHEMA_IR: files.ir_json, SCHEMA_STATE: files.state_json}


def _finish_other_release(manifest: GraphManifest, sidecar: Sidecar) -> None:
    if sidecar.writer_kind != "SchemaApply":
        return
    staged = staged_files(manifest.stores.objects)
    if staged is not None:
        promote(manifest.stores.objects, staged, over=live_files(manifest.stores.objects))


def _is_committed(manifest: GraphManifest, added: AddedTable) -> bool:
    try:
        table = manifest.stores.tables.open_newest(added.table_path, added.table_branch)
    except NotFound:
        return False
    if added.transaction is None or table.version != added.version:
        return False
    return find_transaction(table, added.transaction, after=added.version - 1) == added.version


def _follow(manifest: GraphManifest, sidecar: Sidecar, planned: PlannedSchema, branch: str) -> None:
    """Apply the same schema change to another branch, in a commit of its own; skip a branch with another schema."""
    try:
        branch_manifest = manifest.fresh_branch(branch)
    except BranchNotFound:
        return
    if branch_manifest.schema not in (None, planned.before):
        return
    assert sidecar.commit is not None
    request = PublishRequest(
        commit_id=sidecar.derived_commit_id(f"follow {branch}"),
        created_at=sidecar.commit.created_at,
        versions=sidecar.added_versions(),
        actor=sidecar.actor,
        schema=sidecar.schema_change(),
    )
    manifest.publish(request, branch=branch)


def _purge(manifest: GraphManifest, path: str, *, emptied: bool, operation_id: str) -> None:
    """Delete all versions of a table but the newest, after emptying it if the table was dropped from the graph."""
    table = manifest.stores.tables.open_newest(path)
    if emptied and table.count_rows():
        staged = stage_overwrite(table, put_schema(table.schema).empty_table())
        table = commit_staged(staged, operation_id=operation_id).table
    collect_old_versions(table, keep=1)
    manifest.stores.tables.forget(path)


def resolve_staged_files(manifest: GraphManifest) -> None:
    """Move staged files into place if the tables match them, and remove them if the tables match the live files.

    If both schemas match, nothing that they differ in was ever used, and the change is undone.
    """
    objects = manifest.stores.objects
    if not objects.exists(f"{SCHEMA_STATE}{STAGING}") or _has_sidecar(manifest):
        return
    staged = staged_files(objects)
    if staged is None:
        return
    if not _is_whole(manifest, staged):
        # A suspended writer wrote one of them after its change was undone.
        discard_staged(objects)
        return
    if objects.exists(f"{SCHEMA_SOURCE}{STAGING}"):
        stored, live = _stored_columns(manifest), _declared_columns(manifest, objects.read(SCHEMA_SOURCE))
        if stored == live:
            discard_staged(objects)
            return
        if stored != _declared_columns(manifest, staged[SCHEMA_SOURCE]):
            raise SchemaContractDrift(
                manifest.stores.uri,
                f"{manifest.stores.uri}: a change of schema did not finish, and the tables are in neither schema. "
                f"Restore the graph from a copy, or put the files that fit in place of *{STAGING} and the live ones.",
            )
    # The source is moved first: if it is missing among the staged files, the move had begun.
    promote(objects, staged, over=live_files(objects))


def _has_sidecar(manifest: GraphManifest) -> bool:
    """Whether a sidecar of a schema change exists: then its owner, or whoever recovers it, deals with the files."""
    unreadable: list[RecoveryRequired] = []
    found = list_sidecars(manifest.stores.objects, unreadable=unreadable.append)
    may_be_one = any(each.table_keys is None for each in unreadable)
    return may_be_one or any(each.sidecar.writer_kind == "SchemaApply" for each in found)


def _is_whole(manifest: GraphManifest, files: dict[str, bytes]) -> bool:
    try:
        check_schema_files(*(files[name] for name in SCHEMA_FILES), uri=manifest.stores.uri)
    except SchemaContractDrift:
        return False
    return True


def _stored_columns(manifest: GraphManifest) -> Columns:
    tables = manifest.stores.tables
    return {each.table_key: frozenset(tables.open(each.pin).schema.names) for each in manifest.snapshot(MAIN)}


def _declared_columns(manifest: GraphManifest, source: bytes) -> Columns:
    try:
        schemas = table_arrow_schemas(compile_accepted(source.decode(), SCHEMA_SOURCE))
    except (SchemaError, UnicodeDecodeError) as error:
        raise SchemaContractDrift(manifest.stores.uri, f"{manifest.stores.uri}: {error}") from error
    return {key: frozenset(schema.names) for key, schema in schemas.items()}
