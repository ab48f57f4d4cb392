"""Plans the checks of a load over all its rows and the graph: which columns of which rows are compared in which space.

A space is a domain in which hashes are compared: the ids of a type, the tuples of a unique rule, the sources of edges
with a cardinality rule. A role says what a row is to the rule.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from omnigraph.catalog.rules import EdgeCount, Endpoint, Unique, count_rule, endpoint_rules, unique_rules
from omnigraph.kernels.arrays import ID
from omnigraph.tasks.hash_runs import HashColumns
from omnigraph.tasks.staged_rows import FragmentFile, fragment_files
from omnigraph.tasks.table_scan import ROWS_PER_TASK, TableScan, tasks_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.tasks.hash_runs import HashRun
    from omnigraph.tasks.staged_rows import StagedRows
    from omnigraph.transaction.read_view import ReadView
    from omnigraph.values.batches import Mode

# Roles: rows that are put, committed rows that stay or are replaced, endpoints of edges that are put, endpoints of
# committed edges that stay, and committed rows that an overwrite removes.
PUT, COMMITTED, ENDPOINT, COMMITTED_ENDPOINT, REMOVED = range(5)


@dataclass(frozen=True)
class IdSpace:
    """The ids of one table."""

    table_key: str


@dataclass(frozen=True)
class MovedEdges:
    """The ids of edges with a cardinality rule, with their sources.

    An edge that is put with another source may leave its old source with too few.
    """

    rule: EdgeCount


Space = IdSpace | Unique | EdgeCount | MovedEdges


@dataclass(frozen=True)
class HashOutput:
    """Hashes to compute from some columns. `beside`: paired with the hash of another column of the same row."""

    space: int
    role: int
    columns: tuple[str, ...]
    beside: str | None = None
    given_only: bool = False

    @property
    def hashed(self) -> HashColumns:
        """The columns to hash for it."""
        return HashColumns(self.columns, self.beside)


@dataclass(frozen=True)
class HashSource:
    """Rows to hash: a fragment that the load wrote, or fragments of a committed table.

    `in_runs`: the hashes that were already written to runs when the rows were written.
    """

    table_key: str
    rows: FragmentFile | TableScan
    outputs: tuple[HashOutput, ...]
    in_runs: frozenset[HashColumns] = frozenset()

    def without_runs(self) -> HashSource:
        """The same without the hashes that are in runs already."""
        return replace(self, outputs=tuple(each for each in self.outputs if each.hashed not in self.in_runs))

    @property
    def size(self) -> int:
        """The approximate number of rows."""
        return self.rows.rows if isinstance(self.rows, FragmentFile) else ROWS_PER_TASK

    @property
    def columns(self) -> list[str]:
        """The columns to read."""
        beside = [each.beside for each in self.outputs if each.beside is not None]
        return list(dict.fromkeys([*(name for each in self.outputs for name in each.columns), *beside]))


@dataclass(frozen=True)
class CheckPlan:
    """All checks, as sources of hashes for spaces, and how many hashes they make.

    `runs`: existing hash runs, whose hashes need not be computed again. `ids_are_new`: committed ids must not be put.
    """

    spaces: tuple[Space, ...]
    sources: tuple[HashSource, ...]
    hashes: int
    runs: tuple[tuple[HashOutput, HashRun], ...] = ()
    ids_are_new: bool = False

    def without_runs(self) -> list[HashSource]:
        """The sources with the hashes that have yet to be computed from them."""
        return [each for each in map(HashSource.without_runs, self.sources) if each.outputs]


def plan_checks(
    catalog: Catalog, view: ReadView, staged: Mapping[str, StagedRows], mode: Mode, *, ids_only: bool = False
) -> CheckPlan:
    """Plan the checks of a load in a mode, over one read view. `ids_only`: only check for ids that occur twice."""
    planner = _CheckPlanner(catalog, view, staged, mode)
    for key in sorted(staged):
        planner.check_ids(key)
    if not ids_only:
        for key in sorted(staged):
            planner.check_tuples(key)
        planner.check_endpoints()
        planner.check_counts()
    return planner.plan()


class _CheckPlanner:
    def __init__(self, catalog: Catalog, view: ReadView, staged: Mapping[str, StagedRows], mode: Mode) -> None:
        self._catalog = catalog
        self._view = view
        self._staged = staged
        self._mode = mode
        self._spaces: dict[Space, int] = {}
        self._of_put: dict[str, list[HashOutput]] = {}
        self._of_committed: dict[str, list[HashOutput]] = {}

    def check_ids(self, key: str) -> None:
        table = self._staged[key]
        if not table.rows or table.is_minted:
            return
        space = self._space(IdSpace(key))
        self._put(key, HashOutput(space, PUT, (ID,), given_only=True))
        if self._mode == "append":
            self._committed(key, HashOutput(space, COMMITTED, (ID,)))

    def check_tuples(self, key: str) -> None:
        if not self._staged[key].rows:
            return
        for rule in unique_rules(self._catalog, key):
            # Rows of a load have ids derived from their keys: a repeated key is a repeated id.
            if not rule.is_key:
                space = self._space(rule)
                self._put(key, HashOutput(space, PUT, rule.columns, beside=ID))
                if self._mode != "overwrite":
                    self._committed(key, HashOutput(space, COMMITTED, rule.columns, beside=ID))

    def check_endpoints(self) -> None:
        for name in sorted(self._catalog.edges):
            for rule in endpoint_rules(self._catalog.edges[name]):
                self._check_endpoint(rule)

    def _check_endpoint(self, rule: Endpoint) -> None:
        table = self._staged.get(rule.edge_key)
        overwritten = self._mode == "overwrite" and rule.node_key in self._staged
        if table is not None and table.rows:
            self._put(rule.edge_key, HashOutput(self._nodes(rule.node_key), ENDPOINT, (rule.end,)))
        if overwritten and table is None and self._view.entry(rule.edge_key).row_count:
            self._committed(rule.edge_key, HashOutput(self._nodes(rule.node_key), COMMITTED_ENDPOINT, (rule.end,)))

    def check_counts(self) -> None:
        for name in sorted(self._catalog.edges):
            rule, table = count_rule(self._catalog.edges[name]), self._staged.get(self._catalog.edges[name].table_key)
            if rule is None or table is None:
                continue
            may_replace = self._mode != "overwrite" and not table.is_minted
            space, beside = self._space(rule), ID if may_replace else None
            self._put(rule.edge_key, HashOutput(space, PUT, ("src",), beside))
            if self._mode == "overwrite" and rule.minimum and rule.node_key in self._staged:
                self._nodes(rule.node_key)  # a source that is itself deleted is not counted
            role = REMOVED if self._mode == "overwrite" else COMMITTED
            self._committed(rule.edge_key, HashOutput(space, role, ("src",), beside))
            if may_replace and self._mode == "merge" and rule.minimum and "src" not in table.type.rules.key:
                moved = self._space(MovedEdges(rule))
                self._put(rule.edge_key, HashOutput(moved, PUT, (ID,), "src"))
                self._committed(rule.edge_key, HashOutput(moved, COMMITTED, (ID,), "src"))

    def plan(self) -> CheckPlan:
        sources = [*self._put_sources(), *self._committed_sources()]
        hashes = sum(self._staged[key].rows * len(each) for key, each in self._of_put.items()) + sum(
            self._view.entry(key).row_count * len(each) for key, each in self._of_committed.items()
        )
        new = self._mode == "append"
        return CheckPlan(tuple(self._spaces), tuple(sources), hashes, tuple(self._runs()), ids_are_new=new)

    def _nodes(self, node_key: str) -> int:
        """The space of ids in which endpoints are looked up: of nodes that are put, and of committed ones that stay."""
        space = self._space(IdSpace(node_key))
        table = self._staged.get(node_key)
        if table is not None and table.rows:
            self._put(node_key, HashOutput(space, PUT, (ID,), given_only=True))
        if table is None or self._mode != "overwrite":
            self._committed(node_key, HashOutput(space, COMMITTED, (ID,)))
        return space

    def _space(self, space: Space) -> int:
        return self._spaces.setdefault(space, len(self._spaces))

    def _put(self, key: str, output: HashOutput) -> None:
        planned = self._of_put.setdefault(key, [])
        if self._staged[key].rows and output not in planned:
            planned.append(output)

    def _committed(self, key: str, output: HashOutput) -> None:
        planned = self._of_committed.setdefault(key, [])
        if self._view.entry(key).row_count and output not in planned:
            planned.append(output)

    def _put_sources(self) -> Iterator[HashSource]:
        for key, outputs in sorted(self._of_put.items()):
            for fragment in fragment_files(self._staged[key]):
                wanted = tuple(each for each in outputs if not (each.given_only and fragment.minted))
                if wanted:
                    yield HashSource(key, fragment, wanted, frozenset(self._staged[key].hash_runs))

    def _runs(self) -> Iterator[tuple[HashOutput, HashRun]]:
        for key, outputs in sorted(self._of_put.items()):
            for output in outputs:
                yield from ((output, run) for run in self._staged[key].hash_runs.get(output.hashed, ()))

    def _committed_sources(self) -> Iterator[HashSource]:
        for key, outputs in sorted(self._of_committed.items()):
            if outputs:
                scan = TableScan(self._view.tables.location, self._view.entry(key).pin)
                for task in tasks_of(scan):
                    yield HashSource(key, task, tuple(outputs))
