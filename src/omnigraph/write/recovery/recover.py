"""Dealing with one unfinished operation whose sidecar this process holds.

Look at every table it names, decide for the whole of it, then publish it or undo it, write the audit, and delete the
sidecar last. Every step can be cut short and done again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import BranchNotFound, NotFound, RecoveryRequired
from omnigraph.failpoints import reach
from omnigraph.manifest.layout import MAIN, table_path
from omnigraph.manifest.publisher import NewVersion, PublishRequest
from omnigraph.store.staging import commit_staged, find_transaction, stage_restore
from omnigraph.write.recovery.audit import TableOutcome, record, recovery_of
from omnigraph.write.recovery.classify import Decision, Finding, Observation, classify, decide

if TYPE_CHECKING:
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.publisher import Published
    from omnigraph.store.tables import Table
    from omnigraph.write.recovery.audit import RecoveryKind
    from omnigraph.write.recovery.sidecar import Sidecar, TablePin
    from omnigraph.write.tickets import Ticket

ACTOR = "omnigraph:recovery"


def recover(manifest: GraphManifest, ticket: Ticket, *, may_finish: bool = True) -> Decision:
    """Finish or undo the operation; afterwards its sidecar is gone, and manifest and tables agree.

    `may_finish=False`: its owner has told its caller that it failed, so it is undone even where it could be finished.
    """
    sidecar = ticket.sidecar
    branch = sidecar.branch or MAIN
    try:
        state = manifest.fresh_line(branch).state
    except BranchNotFound:
        _discard_orphan(manifest, ticket)
        return Decision.BACK
    seen = [_observe(manifest, branch, pin) for pin in sidecar.tables]
    findings = [classify(sidecar, each) for each in seen]
    published = sidecar.commit is not None and sidecar.commit.commit_id in state.commits
    decision = decide(sidecar, findings, seen, published=published)
    if decision is Decision.FORWARD and not may_finish:
        decision = Decision.BACK
    match decision:
        case Decision.ABORT:
            raise _violated(sidecar, seen, findings)
        case Decision.FORWARD:
            _forward(manifest, branch, sidecar, seen)
        case Decision.BACK:
            _back(manifest, branch, sidecar, seen)
        case Decision.FINISHED:
            _finished(manifest, branch, sidecar, seen)
    ticket.delete()
    return decision


def _observe(manifest: GraphManifest, branch: str, pin: TablePin) -> Observation:
    entry = manifest.line(branch).state.current_entry(pin.table_key)
    published = entry.version if entry is not None else 0
    try:
        table = manifest.stores.tables.open_newest(table_path(pin.table_key), pin.table_branch)
    except NotFound:
        return Observation(pin, head=published, published=published)
    if pin.transaction is None:
        return Observation(pin, head=table.version, published=published)
    landed = find_transaction(table, pin.transaction, after=pin.expected_version)
    return Observation(pin, head=table.version, published=published, landed=landed)


def _forward(manifest: GraphManifest, branch: str, sidecar: Sidecar, seen: list[Observation]) -> None:
    """Publish what has landed, as the commit that the operation wanted to be."""
    reach("recovery.before_publish")
    planned = sidecar.commit
    published = manifest.publish(
        PublishRequest(
            commit_id=planned.commit_id if planned else manifest.world.ulid(),
            created_at=planned.created_at if planned else manifest.world.now_us(),
            versions=[
                *(_new_version(manifest, each.pin, each.head) for each in seen),
                *(NewVersion(each.table_key, 1, 0, each.table_branch, each.table_path) for each in sidecar.added),
            ],
            drops=[each.table_key for each in sidecar.dropped],
            expected_versions={each.pin.table_key: each.pin.expected_version for each in seen},
            actor=sidecar.actor if planned else ACTOR,
            merged_parent=planned.merged_parent if planned else sidecar.merge_source_commit_id,
            idempotency_key=planned.idempotency_key if planned else None,
        ),
        branch=branch,
    )
    outcomes = [TableOutcome(each.pin.table_key, each.pin.expected_version, each.head) for each in seen]
    _audit(manifest, sidecar, "RolledForward", published.commit.id, outcomes)


def _back(manifest: GraphManifest, branch: str, sidecar: Sidecar, seen: list[Observation]) -> None:
    """Take back what has landed and is not published, and publish the restored tables: manifest and tables agree."""
    moved = [each for each in seen if _is_ours_to_undo(sidecar, each)]
    restored = [_restore(manifest, each) for each in moved]
    outcomes = [TableOutcome(each.pin.table_key, each.head, each.published) for each in moved]
    if not restored:
        head = manifest.line(branch).state.head
        _audit(manifest, sidecar, "RolledBack", head.id if head else "", outcomes)
        return
    reach("recovery.before_publish")
    request = PublishRequest(
        commit_id=manifest.world.ulid(),
        created_at=manifest.world.now_us(),
        versions=[_version_of(each, seen_at.pin) for each, seen_at in zip(restored, moved, strict=True)],
        expected_versions={each.pin.table_key: each.published for each in moved},
        actor=ACTOR,
    )
    published: Published = manifest.publish(request, branch=branch)
    _audit(manifest, sidecar, "RolledBack", published.commit.id, outcomes)


def _is_ours_to_undo(sidecar: Sidecar, seen: Observation) -> bool:
    """Never what somebody else has done, and never what is published: an earlier try may have come that far."""
    if seen.pin.transaction is not None:
        return seen.landed is not None and seen.landed > seen.published
    return classify(sidecar, seen) is not Finding.NO_MOVEMENT


def _restore(manifest: GraphManifest, seen: Observation) -> Table:
    newest = manifest.stores.tables.open_newest(table_path(seen.pin.table_key), seen.pin.table_branch)
    return commit_staged(stage_restore(newest, seen.published)).table


def _finished(manifest: GraphManifest, branch: str, sidecar: Sidecar, seen: list[Observation]) -> None:
    """Everything was published; only the sidecar had been left behind."""
    head = manifest.line(branch).state.head
    commit_id = sidecar.commit.commit_id if sidecar.commit else head.id if head else ""
    outcomes = [TableOutcome(each.pin.table_key, each.pin.expected_version, each.published) for each in seen]
    _audit(manifest, sidecar, "RolledForward", commit_id, outcomes)


def _discard_orphan(manifest: GraphManifest, ticket: Ticket) -> None:
    """The branch is gone, and with it all that the operation could have changed. Main's history tells of it."""
    now = manifest.world.now_us()
    published = manifest.publish(PublishRequest(manifest.world.ulid(), now, actor=ACTOR))
    _audit(manifest, ticket.sidecar, "OrphanedBranchDiscarded", published.commit.id, [])
    ticket.delete()


def _audit(
    manifest: GraphManifest, sidecar: Sidecar, kind: RecoveryKind, commit_id: str, outcomes: list[TableOutcome]
) -> None:
    reach("recovery.before_audit")
    line = recovery_of(sidecar, kind, commit_id=commit_id, outcomes=tuple(outcomes), created_at=manifest.world.now_us())
    record(manifest.stores, line)


def _new_version(manifest: GraphManifest, pin: TablePin, version: int) -> NewVersion:
    table = manifest.stores.tables.open_newest(table_path(pin.table_key), pin.table_branch)
    assert table.version == version, "the table moved while its sidecar was held"
    return _version_of(table, pin)


def _version_of(table: Table, pin: TablePin) -> NewVersion:
    return NewVersion(pin.table_key, table.version, table.count_rows(), pin.table_branch, table_path(pin.table_key))


def _violated(sidecar: Sidecar, seen: list[Observation], findings: list[Finding]) -> RecoveryRequired:
    broken = [each for each, finding in zip(seen, findings, strict=True) if finding is Finding.INVARIANT_VIOLATION]
    tables = ", ".join(
        f"{each.pin.table_key} (published {each.published}, on the store {each.head})" for each in broken
    )
    return RecoveryRequired(
        f"operation {sidecar.operation_id} cannot be recovered: {tables}. A table lost versions that the graph needs; "
        "restore it from a copy. The sidecar is kept.",
        operation_id=sidecar.operation_id,
        branch=sidecar.branch,
    )
