"""Builds the indexes that the schema declares. Reads do not require them; they are faster with them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from omnigraph.catalog.indexes import table_indexes
from omnigraph.kernels.report import Report
from omnigraph.storage.filters.model import IsNull, Not
from omnigraph.storage.tables.indexes import IndexSpec, index_names, stage_indexes
from omnigraph.transaction.commit.protocol import Operation, commit
from omnigraph.transaction.write_set import TableWrite, WriteSet

if TYPE_CHECKING:
    from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.storage.tables.indexes import Build
    from omnigraph.transaction.read_view import ReadView


@dataclass(frozen=True)
class PendingIndex:
    """An index that is declared and cannot be built yet."""

    table_key: str
    property: str
    reason: str


@dataclass(frozen=True, repr=False)
class IndexReport(Report):
    """What was built, by table, and what is still to come. `commit` is None when nothing was missing."""

    commit: GraphCommit | None
    built: dict[str, tuple[str, ...]]
    pending: tuple[PendingIndex, ...]

    def _summary(self) -> str:
        built = sum(map(len, self.built.values()))
        return f"{built} built, {len(self.pending)} pending"


class IndexBuild:
    """Builds every missing declared index of a branch, in one commit. `build` builds them; None: in this process."""

    def __init__(
        self,
        manifest: GraphManifest,
        catalog: Catalog,
        *,
        branch: str,
        actor: str | None = None,
        build: Build | None = None,
    ) -> None:
        self._manifest = manifest
        self._catalog = catalog
        self._branch = branch
        self._actor = actor
        self._build = build
        self._built: dict[str, tuple[str, ...]] = {}
        self._pending: list[PendingIndex] = []

    def run(self) -> IndexReport:
        """Build what is missing. Empty tables are skipped."""
        receipt = commit(
            self._manifest, Operation("EnsureIndices", self._prepare, branch=self._branch, actor=self._actor)
        )
        return IndexReport(receipt.commit if receipt else None, self._built, tuple(self._pending))

    def _prepare(self, view: ReadView) -> WriteSet | None:
        self._built, self._pending = {}, []
        kinds: list[NodeType | EdgeType] = [*self._catalog.nodes.values(), *self._catalog.edges.values()]
        writes = []
        for kind in kinds:
            missing = self._missing(view, kind) if view.snapshot[kind.table_key].row_count else []
            if missing:
                self._built[kind.table_key] = tuple(each.name for each in missing)
                writes.append(
                    TableWrite(view.entry(kind.table_key), partial(stage_indexes, specs=missing, build=self._build))
                )
        return WriteSet(writes) if writes else None

    def _missing(self, view: ReadView, kind: NodeType | EdgeType) -> list[IndexSpec]:
        table = view.table(kind.table_key)
        there = index_names(table)
        found = []
        for each in table_indexes(kind):
            if each.name in there:
                continue
            if each.kind == "vector" and not table.count_rows(Not(IsNull(each.column))):
                self._pending.append(PendingIndex(kind.table_key, each.column, "no row has a vector yet"))
                continue
            found.append(IndexSpec(each.column, each.kind, each.name, each.metric))
        return found
