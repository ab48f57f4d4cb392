"""Recovery finishes or undoes an unfinished operation whose sidecar this process holds.

`recover` inspects every table that the sidecar names, decides for the operation as a whole, publishes or undoes it,
writes the audit, and deletes the sidecar last. Every step may be interrupted and repeated: the transactions and commits
that a recovery makes have ids derived from the operation's, so a second attempt finds what the first has done.

Undoing leaves every table that the sidecar names at the manifest's version. A table is *healed*: versions above the
published one that operations of this program made belong to nobody, since nobody else holds a queue entry for the
table, and a Lance `Restore` reverts them. It is *fenced* when a former owner may still be alive: a `Restore` of the
published version, as a new version, makes Lance refuse every transaction that was staged before it. A commit that
succeeds in spite of both (a second `Restore`, a commit after a cleanup removed the fence) is healed by the next writer.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import NAMESPACE_OID, uuid5

from omnigraph.errors import BranchNotFound, CommitConflict, NotFound, ObjectChanged, RecoveryRequired
from omnigraph.failpoints import reach
from omnigraph.manifest.layout import MAIN, table_path
from omnigraph.manifest.publisher import NewVersion, PublishRequest
from omnigraph.storage.tables.staging import are_ours, commit_staged, find_transaction, how_made, stage_restore
from omnigraph.storage.tables.table import Pin
from omnigraph.transaction.recovery.audit import TableOutcome, record, recovery_of
from omnigraph.transaction.recovery.classify import Decision, Observation, TableFinding, classify, decide
from omnigraph.transaction.recovery.schema_files import finish_schema, schema_is_ready, undo_schema

if TYPE_CHECKING:
    from omnigraph.manifest.branch_manifest import BranchManifest
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.storage.tables.table import Table
    from omnigraph.transaction.intents.queue import QueueEntry
    from omnigraph.transaction.intents.sidecar import Sidecar, TablePin
    from omnigraph.transaction.recovery.audit import RecoveryKind

log = logging.getLogger(__name__)

ACTOR = "omnigraph:recovery"
ATTEMPTS = 5


def recover(manifest: GraphManifest, queue_entry: QueueEntry) -> Decision:
    """Finish or undo the operation; afterwards its sidecar is gone, and manifest and tables agree."""
    for _ in range(ATTEMPTS - 1):
        try:
            return _recover(manifest, queue_entry)
        except (CommitConflict, ObjectChanged) as error:
            # A suspended process has changed a table, the branch or a schema file in the meantime.
            log.info("operation %s is looked at again: %s", queue_entry.sidecar.operation_id, error)
    return _recover(manifest, queue_entry)


def _recover(manifest: GraphManifest, queue_entry: QueueEntry) -> Decision:
    sidecar = queue_entry.sidecar
    branch_manifest = _branch_manifest_of(manifest, sidecar)
    if branch_manifest is None:
        _discard_orphan(manifest, queue_entry)
        return Decision.BACK
    seen = [_observe(manifest, sidecar, branch_manifest, pin) for pin in sidecar.tables]
    findings = [classify(sidecar, each) for each in seen]
    published = branch_manifest.commit(_forward_id(sidecar)) is not None
    undone = branch_manifest.commit(sidecar.derived_commit_id("back")) is not None
    ready = schema_is_ready(manifest, sidecar)
    decision = decide(sidecar, findings, seen, published=published, undone=undone, schema_ready=ready)
    match decision:
        case Decision.ABORT:
            raise _violated(sidecar, seen, findings)
        case Decision.FORWARD:
            _forward(manifest, branch_manifest.branch, sidecar, seen)
            finish_schema(manifest, queue_entry)
        case Decision.BACK:
            undo_schema(manifest, sidecar)
            _back(manifest, branch_manifest, queue_entry, seen)
        case Decision.FINISHED:
            finish_schema(manifest, queue_entry)
            _finished(manifest, branch_manifest, sidecar, seen)
    queue_entry.delete()
    return decision


def _forward_id(sidecar: Sidecar) -> str:
    return sidecar.commit.commit_id if sidecar.commit else sidecar.derived_commit_id("forward")


def _branch_manifest_of(manifest: GraphManifest, sidecar: Sidecar) -> BranchManifest | None:
    """The branch that the operation was for; None when it was deleted, even if there is a new one of the same name."""
    try:
        branch_manifest = manifest.fresh_branch(sidecar.branch or MAIN)
    except BranchNotFound:
        return None
    replaced = sidecar.incarnation is not None and sidecar.incarnation != branch_manifest.incarnation
    return None if replaced else branch_manifest


def _observe(manifest: GraphManifest, sidecar: Sidecar, branch_manifest: BranchManifest, pin: TablePin) -> Observation:
    entry = branch_manifest.current_entry(pin.table_key)
    published = entry.version if entry is not None else 0
    try:
        table = manifest.stores.tables.open_newest(table_path(pin.table_key), pin.table_branch)
    except NotFound:
        return Observation(pin, head=published, published=published, is_there=False)
    restored = find_transaction(table, _restore_uuid(sidecar, pin), after=pin.expected_version)
    seen = Observation(
        pin,
        head=table.version,
        published=published,
        restored=restored,
        is_there=entry is not None and entry.branch == pin.table_branch,
        ours=are_ours(table, after=published),
        head_restores=_restored_by(table, _restore_uuid(sidecar, pin)),
    )
    if pin.transaction is None:
        return seen
    committed = find_transaction(table, pin.transaction, after=pin.expected_version)
    compacted = committed and find_transaction(table, pin.compaction_uuid(sidecar.operation_id), after=committed)
    return replace(seen, committed=committed, compacted=compacted or None)


def _restored_by(table: Table, uuid: str) -> int | None:
    """The version that the newest one restores, if the newest one was made by the transaction `uuid`."""
    if find_transaction(table, uuid, after=table.version - 1) is None:
        return None
    return how_made(table, table.version).restored


def _forward(manifest: GraphManifest, branch: str, sidecar: Sidecar, seen: list[Observation]) -> None:
    """Publish the committed tables as the commit that the operation was to become."""
    reach("recovery.before_publish")
    planned = sidecar.commit
    request = PublishRequest(
        commit_id=_forward_id(sidecar),
        created_at=planned.created_at if planned else manifest.world.now_us(),
        versions=[
            *(_version_at(manifest, each.pin, each.head) for each in seen),
            *sidecar.added_versions(),
            *sidecar.fast_forwarded_versions(),
        ],
        drops=[each.table_key for each in sidecar.dropped],
        expected_versions={
            **{each.pin.table_key: each.pin.expected_version for each in seen},
            **{each.table_key: each.expected_version for each in sidecar.fast_forwarded if each.expected_version},
        },
        actor=sidecar.actor if planned else ACTOR,
        merged_parent=planned.merged_parent if planned else sidecar.merge_source_commit_id,
        idempotency_key=planned.idempotency_key if planned else None,
        schema=sidecar.schema_change(),
        excluded_by=(sidecar.derived_commit_id("back"),),
    )
    published = manifest.publish(request, branch=branch)
    outcomes = [TableOutcome(each.pin.table_key, each.pin.expected_version, each.head) for each in seen]
    _audit(manifest, sidecar, "RolledForward", published.commit.id, outcomes)


def _back(
    manifest: GraphManifest, branch_manifest: BranchManifest, queue_entry: QueueEntry, seen: list[Observation]
) -> None:
    """Revert what is not published, fence tables that may still be written to late, and publish the restored versions.

    A table with another program's versions is only reverted to the version before this operation's: `repair` handles
    those.
    """
    sidecar = queue_entry.sidecar
    fenced = sidecar.has_live_former_owner(manifest.world)
    versions = []
    for each in seen:
        if not (_is_ours_to_undo(sidecar, each) or (fenced and _can_be_fenced(each))):
            continue
        restored = each.head if each.head_restores == _before(each) else _restore(manifest, sidecar, each)
        if _before(each) == each.published:
            versions.append(_version_at(manifest, each.pin, restored))
    # An operation may change no table: its rollback is recorded by a commit all the same, or a late publish would
    # revive it.
    if versions or fenced:
        reach("recovery.before_publish")
        request = PublishRequest(
            commit_id=sidecar.derived_commit_id("back"),
            created_at=manifest.world.now_us(),
            versions=versions,
            expected_versions={each.table_key: _published(seen, each.table_key) for each in versions},
            actor=ACTOR,
            excluded_by=(_forward_id(sidecar),),
        )
        manifest.publish(request, branch=branch_manifest.branch)
    commit_id = _commit_or_head(branch_manifest, sidecar.derived_commit_id("back"))
    _audit(manifest, sidecar, "RolledBack", commit_id, _undone(sidecar, seen))


def _commit_or_head(branch_manifest: BranchManifest, commit_id: str) -> str:
    """The commit, if the branch has it; else the branch's newest one."""
    return commit_id if branch_manifest.commit(commit_id) is not None else branch_manifest.head_id or ""


def _is_ours_to_undo(sidecar: Sidecar, seen: Observation) -> bool:
    """Whether to revert the table: never another program's versions, never published ones.

    An earlier attempt of this recovery may have published its restore already.
    """
    if not sidecar.is_planned:
        return classify(sidecar, seen) is not TableFinding.NO_MOVEMENT
    if seen.committed is not None and seen.committed > seen.published:
        return True
    return seen.is_there and seen.is_ahead and seen.ours


def _can_be_fenced(seen: Observation) -> bool:
    """A table that has not been forked for the branch has nothing to commit to yet."""
    return seen.is_there and not seen.is_ahead


def _before(seen: Observation) -> int:
    """The version that a table is reverted to: the published one, unless another program has committed above it."""
    return seen.published if seen.committed is None or seen.ours else seen.committed - 1


def _published(seen: list[Observation], table_key: str) -> int:
    return next(each.published for each in seen if each.pin.table_key == table_key)


def _undone(sidecar: Sidecar, seen: list[Observation]) -> list[TableOutcome]:
    """From the version that was reverted to the version whose content the table has again; equal at every attempt."""
    if sidecar.is_planned:
        committed = [(each.pin.table_key, each.committed) for each in seen if each.committed is not None]
        return [TableOutcome(table_key, version, version - 1) for table_key, version in committed]
    outcomes = []
    for each in seen:
        if each.restored is not None:
            outcomes.append(TableOutcome(each.pin.table_key, each.restored - 1, each.pin.expected_version))
        elif _is_ours_to_undo(sidecar, each):
            outcomes.append(TableOutcome(each.pin.table_key, each.head, each.published))
    return outcomes


def _restore(manifest: GraphManifest, sidecar: Sidecar, seen: Observation) -> int:
    newest = manifest.stores.tables.open_newest(table_path(seen.pin.table_key), seen.pin.table_branch)
    if newest.version > max(seen.last or 0, seen.published):
        log.warning(
            "operation %s is undone: versions %s to %s of %s, which the graph does not know, go with it",
            sidecar.operation_id,
            max(seen.last or 0, seen.published) + 1,
            newest.version,
            seen.pin.table_key,
        )
    staged = stage_restore(newest, _before(seen))
    staged.transaction.uuid = _restore_uuid(sidecar, seen.pin)
    return commit_staged(staged, operation_id=sidecar.operation_id).version


def _restore_uuid(sidecar: Sidecar, pin: TablePin) -> str:
    return str(uuid5(NAMESPACE_OID, f"{sidecar.operation_id} {pin.table_key} {pin.table_branch or ''}"))


def _finished(
    manifest: GraphManifest, branch_manifest: BranchManifest, sidecar: Sidecar, seen: list[Observation]
) -> None:
    """Record an operation that had published everything and left only its sidecar behind."""
    commit_id = _commit_or_head(branch_manifest, _forward_id(sidecar))
    outcomes = [TableOutcome(each.pin.table_key, each.pin.expected_version, _after(each)) for each in seen]
    _audit(manifest, sidecar, "RolledForward", commit_id, outcomes)


def _after(seen: Observation) -> int:
    return seen.published if seen.last is None else seen.last


def _discard_orphan(manifest: GraphManifest, queue_entry: QueueEntry) -> None:
    """Discard an operation whose branch was deleted, with all that it could have changed; record that on main."""
    sidecar = queue_entry.sidecar
    request = PublishRequest(sidecar.derived_commit_id("orphan"), manifest.world.now_us(), actor=ACTOR)
    published = manifest.publish(request)
    _audit(manifest, sidecar, "OrphanedBranchDiscarded", published.commit.id, [])
    queue_entry.delete()


def _audit(
    manifest: GraphManifest, sidecar: Sidecar, kind: RecoveryKind, commit_id: str, outcomes: list[TableOutcome]
) -> None:
    reach("recovery.before_audit")
    now = manifest.world.now_us()
    recovery = recovery_of(sidecar, kind, commit_id=commit_id, outcomes=tuple(outcomes), created_at=now)
    record(manifest.stores, recovery)


def _version_at(manifest: GraphManifest, pin: TablePin, version: int) -> NewVersion:
    path = table_path(pin.table_key)
    table: Table = manifest.stores.tables.open(Pin(path, version, pin.table_branch))
    return NewVersion(pin.table_key, version, table.count_rows(), pin.table_branch, path)


def _violated(sidecar: Sidecar, seen: list[Observation], findings: list[TableFinding]) -> RecoveryRequired:
    broken = [each for each, finding in zip(seen, findings, strict=True) if finding is TableFinding.INVARIANT_VIOLATION]
    tables = ", ".join(
        f"{each.pin.table_key} (published {each.published}, on the store {each.head})" for each in broken
    )
    return RecoveryRequired(
        f"operation {sidecar.operation_id} cannot be recovered: {tables}. A table lost versions that the graph needs; "
        "restore it from a copy. The sidecar is kept.",
        operation_id=sidecar.operation_id,
        branch=sidecar.branch,
        table_keys=tuple(sorted({table_key for table_key, _ in sidecar.table_refs})) or None,
    )
