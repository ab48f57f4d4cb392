"""Repair handles tables that are ahead of the graph because another program committed to them with Lance directly.

The Lance transactions show what that program did. If they only rearranged files, the newest version has the published
rows; otherwise nothing has validated it, and adopting it into the graph must be forced.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from omnigraph.errors import CommitRejected, InvalidInput, OmniGraphError, ReadSetChanged
from omnigraph.kernels.report import Report
from omnigraph.manifest.layout import physical_branch
from omnigraph.storage.tables.staging import how_made
from omnigraph.transaction.commit.protocol import Operation, commit
from omnigraph.transaction.intents.queue import list_sidecars
from omnigraph.transaction.intents.sidecar_json import report_unreadable
from omnigraph.transaction.write_set import Adoption, WriteSet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.manifest.snapshot import TableEntry
    from omnigraph.storage.tables.staging import Made
    from omnigraph.transaction.read_view import ReadView

RepairClassification = Literal["no_drift", "verified_maintenance", "suspicious", "unverifiable", "lost_versions"]
RepairAction = Literal["no_op", "preview", "healed", "forced", "refused"]

_HARMLESS = frozenset({"Rewrite", "ReserveFragments"})
# Foreign commits may continue while the tables are inspected.
ATTEMPTS = 3


@dataclass(frozen=True)
class RepairedTable:
    """One table of one branch: its published and newest versions, the operations in between, and the action taken."""

    table_key: str
    branch: str
    published_version: int
    head_version: int
    classification: RepairClassification = "no_drift"
    action: RepairAction = "no_op"
    operations: tuple[str, ...] = ()
    error: str | None = None


@dataclass(frozen=True, repr=False)
class RepairReport(Report):
    """What was found and done. `commits` are those that took something into the graph, at most one a branch."""

    confirm: bool
    force: bool
    manifest_version: int
    tables: tuple[RepairedTable, ...]
    commits: tuple[GraphCommit, ...] = ()

    @property
    def refused(self) -> tuple[RepairedTable, ...]:
        """What was left as it is though it was asked to be repaired."""
        return tuple(each for each in self.tables if each.action == "refused")

    def _summary(self) -> str:
        return f"{len(self.tables)} tables, {len(self.commits)} commits, {len(self.refused)} refused"


class Repair:
    """Inspects every table of every branch; writes only when `confirm` is given."""

    def __init__(
        self, manifest: GraphManifest, *, confirm: bool = False, force: bool = False, actor: str | None = None
    ) -> None:
        if force and not confirm:
            raise InvalidInput("force says what to do with changes that may have touched rows: it needs confirm too.")
        if confirm and manifest.read_only:
            raise CommitRejected("the graph was opened read-only: open it for writing to repair it.")
        self._manifest = manifest
        self._confirm = confirm
        self._force = force
        self._actor = actor
        self._found: dict[str, list[RepairedTable]] = {}

    def run(self) -> RepairReport:
        """Inspect the tables, and repair them if confirmed."""
        commits: list[GraphCommit] = []
        for branch in [each.name for each in self._manifest.branches()]:
            if not self._confirm:
                self._found[branch] = self._tables(branch, list(self._manifest.snapshot(branch)))
            elif (made := self._adopt(branch)) is not None:
                commits.append(made)
        tables = tuple(each for found in self._found.values() for each in found)
        version = self._manifest.fresh_branch().manifest_version
        return RepairReport(self._confirm, self._force, version, tables, tuple(commits))

    def _adopt(self, branch: str) -> GraphCommit | None:
        """Adopt foreign versions; retried when another foreign commit intervenes.

        The protocol waits for or recovers operations in the way, after which the tables are inspected again.
        """
        operation = Operation("Optimize", lambda view: self._prepare(branch, view), branch=branch, actor=self._actor)
        for attempt in reversed(range(ATTEMPTS)):
            try:
                receipt = commit(self._manifest, operation)
            except ReadSetChanged:
                if not attempt:
                    raise
                continue
            return receipt.commit if receipt else None
        raise AssertionError("the last attempt returns or raises")

    def _prepare(self, branch: str, view: ReadView) -> WriteSet | None:
        found = self._tables(branch, list(view.snapshot))
        self._found[branch] = found
        taken = [each for each in found if each.action in ("healed", "forced")]
        adopted = [Adoption(view.snapshot[each.table_key], each.head_version) for each in taken]
        return WriteSet(adopted=adopted) if adopted else None

    def _tables(self, branch: str, entries: Sequence[TableEntry]) -> list[RepairedTable]:
        own = [each for each in entries if each.branch == physical_branch(branch)]
        return [self._table(branch, each) for each in own]

    def _table(self, branch: str, entry: TableEntry) -> RepairedTable:
        report = RepairedTable(entry.table_key, branch, entry.version, entry.version)
        try:
            table = self._manifest.stores.tables.open_newest(entry.path, entry.branch)
            if table.version == entry.version or self._is_being_written(entry):
                return report
            report = replace(report, head_version=table.version)
            made = [how_made(table, each) for each in range(entry.version + 1, table.version + 1)]
        except OmniGraphError as error:
            action: RepairAction = "refused" if self._confirm else "preview"
            return replace(report, classification="unverifiable", action=action, error=str(error))
        operations = tuple(each.operation for each in _in_effect(made, entry.version))
        classification = _classify(entry.version, table.version, operations)
        return replace(
            report, classification=classification, action=self._action(classification), operations=operations
        )

    def _action(self, classification: RepairClassification) -> RepairAction:
        if not self._confirm:
            return "preview"
        if classification == "verified_maintenance":
            return "healed"
        return "forced" if self._force and classification != "lost_versions" else "refused"

    def _is_being_written(self, entry: TableEntry) -> bool:
        """Whether an operation of this program is writing to the table: it will publish or revert what it did."""
        table_ref = (entry.table_key, entry.branch)
        found = list_sidecars(self._manifest.stores.objects, unreadable=report_unreadable)
        return not self._confirm and any(table_ref in each.sidecar.table_refs for each in found)


def _in_effect(made: Sequence[Made], published: int) -> list[Made]:
    """The changes that the newest version contains, without those that a restore reverted.

    An operation of this program that met the foreign commits has left its own change and the restore that undid it.
    """
    left: list[Made] = []
    for each in made:
        if each.restored is not None and each.restored >= published:
            left = [one for one in left if one.version <= each.restored]
        else:
            left.append(each)
    return left


def _classify(published: int, head: int, operations: Sequence[str]) -> RepairClassification:
    if head < published:
        return "lost_versions"
    if "unknown" in operations:
        return "unverifiable"
    return "verified_maintenance" if set(operations) <= _HARMLESS else "suspicious"
