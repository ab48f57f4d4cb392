"""Every driver of the rules over several rows finds the same violations: memory, tasks, SQL, a new schema."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from load.task_loads import SmallTasks
from omnigraph.catalog.rules import type_of
from omnigraph.ddl.data_checks import rule_violations
from omnigraph.ddl.new_shape import NewShape
from omnigraph.errors import CardinalityViolation, KeyConflict, OmniGraphError, OrphanEdge, UniqueViolation
from omnigraph.history.merge.partitioned.constraints import Changed, RuleCheck
from omnigraph.history.merge.partitioned.relations import KeyColumnTables
from omnigraph.history.merge.partitioned.row_rewrite import SpilledChange
from omnigraph.history.merge.partitioned.task import has_foreign_ids
from omnigraph.kernels.arrays import ID
from omnigraph.language.evolution import plan_evolution
from omnigraph.language.schema.compile import compile_schema
from omnigraph.load.bulk.read import InputRead
from omnigraph.load.plan import plan_load
from omnigraph.transaction.constraints.exchange.candidates import CandidateSearch
from omnigraph.transaction.constraints.exchange.plan import plan_checks
from omnigraph.transaction.constraints.exchange.violations import ViolationSearch
from omnigraph.transaction.constraints.validate import violations
from omnigraph.world import REAL
from transaction.small_graph import SmallGraph

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from omnigraph.tasks.runner import TaskRunner

Row = dict[str, Any]
Tables = dict[str, list[Row]]
NAMES = ["a", "b", "c", "d", "e", "f", "g"]


def schema_of(node_rules: str, card: str, edge_rules: str) -> str:
    return (
        f"node A {{ name: String @key\n n: I32?\n f: F64?\n s: String?\n t: [String]?\n {node_rules} }}\n"
        "node B { name: String @key }\n"
        f"edge E: A -> B {card} {{ n: I32?\n {edge_rules} }}\n"
        "edge F: A -> A {}"
    )


BARE = schema_of("", "", "")
SCHEMAS = st.builds(
    schema_of,
    st.sampled_from(["@unique(s)", "@unique(n, s)\n@unique(f)", "@unique(t)\n@unique(s, f)"]),
    st.sampled_from(["@card(0..1)", "@card(1..2)", "@card(2..)", ""]),
    st.sampled_from(["", "@unique(src, n)", "@unique(src, dst)"]),
)
VALUES = {
    "n": [None, 0, 1],
    "f": [None, 0.0, -0.0, 1.5],
    "s": [None, "x", "y", "X"],
    "t": [None, [], ["x"], ["x", "y"]],
}


def rows_of(values: Mapping[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[list[Row]]:
    rows = st.dictionaries(st.sampled_from(NAMES), st.fixed_dictionaries(dict(values)), min_size=1, max_size=6)
    return rows.map(lambda found: [{"id": row_id, **row} for row_id, row in found.items()])


def named(rows: list[Row]) -> list[Row]:
    return [{**row, "name": row["id"]} for row in rows]


NODE = st.sampled_from(NAMES[:4])
ENDS = {"src": NODE, "dst": NODE}
ROWS: dict[str, st.SearchStrategy[list[Row]]] = {
    "node:A": rows_of({name: st.sampled_from(values) for name, values in VALUES.items()}).map(named),
    "node:B": rows_of({}).map(named),
    "edge:E": rows_of({**ENDS, "n": st.sampled_from([None, 1, 2])}),
    "edge:F": rows_of(ENDS),
}
STATES = st.fixed_dictionaries(ROWS)
CHANGES = st.fixed_dictionaries({}, optional=ROWS)


@dataclass
class Drivers:
    """A graph of one schema, and each way to check a change of it."""

    folder: Path
    schema: str
    made: int = 0

    @cached_property
    def graph(self) -> SmallGraph:
        return SmallGraph(self.folder / "graph.omni", self.schema)

    @cached_property
    def empty(self) -> SmallGraph:
        return SmallGraph(self.folder / "empty.omni", self.schema)

    def reset(self, state: Tables) -> None:
        self.graph.apply({k: self.graph.change(k, rows, overwrite=True) for k, rows in state.items()}, check=False)

    def in_memory(self, puts: Tables, mode: str = "merge", deletes: Mapping[str, frozenset[str]] = {}) -> list[Any]:
        graph = self.graph
        changes = {
            key: graph.change(
                key,
                puts.get(key, ()),
                deletes.get(key, ()),
                overwrite=mode == "overwrite",
                only_new=mode == "append",
            )
            for key in sorted({*puts, *deletes})
        }
        return [told(each) for each in violations(graph.catalog, graph.view(), changes)]

    def in_tasks(self, puts: Tables, mode: Any, runner: TaskRunner, *, shared: bool) -> list[Any]:
        found = self.errors_in_tasks(puts, mode, runner, shared=shared)
        return [told(each) for each in found if not isinstance(each, KeyConflict)]

    def errors_in_tasks(self, puts: Tables, mode: Any, runner: TaskRunner, *, shared: bool) -> list[OmniGraphError]:
        view, catalog = self.graph.view(), self.graph.catalog
        plan = plan_load({key.partition(":")[2]: loaded(rows) for key, rows in puts.items()}, catalog, REAL)
        with runner.shared_directory() if shared else nullcontext() as directory:
            reading = InputRead(runner, catalog, plan, mode, REAL, directory=directory)
            written = reading.run(view.snapshot, view.tables.location)
            assert not written.errors
            candidates = CandidateSearch(runner, plan_checks(catalog, view, written.tables, mode), directory)
            search = ViolationSearch(catalog, mode, written.tables, candidates)
            assert search.duplicates() == []
            return [each.error for each in search.violations()] if candidates else []

    def in_sql(self, puts: Tables, deletes: Mapping[str, frozenset[str]]) -> list[Any]:
        view, catalog = self.graph.view(), self.graph.catalog
        spilled, changed = {}, {}
        self.made += 1
        folder = self.folder / str(self.made)
        for key in sorted({*puts, *deletes}):
            (folder / key).mkdir(parents=True)
            rows, removed = self.graph.rows(key, puts.get(key, [])), sorted(deletes.get(key, ()))
            spilled[key] = SpilledChange(folder / key, 4)
            spilled[key].put(rows)
            spilled[key].delete(pa.table({ID: pa.array(removed, pa.string())}))
            changed[key] = Changed(rows.num_rows, len(removed), has_foreign_ids(catalog, key, rows))
        folder.mkdir(exist_ok=True)
        relations = KeyColumnTables(catalog, view, spilled, folder, memory=64 << 20)
        found = [each for some, _ in RuleCheck(catalog, changed, relations).violations() for each in some]
        relations.close()
        return [told(each) for each in found]

    def of_new_schema(self) -> list[Any]:
        view, catalog = self.graph.view(), self.graph.catalog
        plan = plan_evolution(compile_schema(BARE), catalog)
        return [
            told(each)
            for change in plan.tables
            for check in change.checks
            for each in rule_violations(
                check, catalog, NewShape(type_of(catalog, change.table_key), change), view.table(change.table_key)
            )
        ]

    def of_first_rows(self, state: Tables) -> list[Any]:
        """What the check in memory finds when the rows come into an empty graph; endpoints aside."""
        changes = {key: self.empty.change(key, rows) for key, rows in state.items()}
        found = violations(self.empty.catalog, self.empty.view(), changes)
        return [told(each) for each in found if not isinstance(each, OrphanEdge)]


def loaded(rows: list[Row]) -> list[Row]:
    """Rows as a load reads them: a key makes the id of a node, and endpoints have the names of the load."""
    if "src" not in rows[0]:
        return [{name: value for name, value in row.items() if name != "id"} for row in rows]
    ends = {"src": "from", "dst": "to"}
    return [{ends.get(name, name): value for name, value in row.items()} for row in rows]


def told(error: OmniGraphError) -> tuple[Any, ...]:
    match error:
        case UniqueViolation():
            return "unique", error.type_name, error.row_id, error.properties
        case OrphanEdge():
            return "endpoint", error.type_name, error.row_id, error.end
        case CardinalityViolation():
            return "count", error.type_name, error.source_id, error.count
    raise AssertionError(error)


def by_id(tables: Tables) -> Tables:
    return {key: sorted(rows, key=lambda each: str(each["id"])) for key, rows in tables.items()}


def removable(tables: Tables, gone: Iterable[str]) -> dict[str, frozenset[str]]:
    """Some ids to delete from each table, of rows that are not put."""
    kept = {key: {row["id"] for row in tables.get(key, ())} for key in ROWS}
    return {key: frozenset(gone) - ids for key, ids in kept.items() if frozenset(gone) - ids}


def without_existing_edges(puts: Tables, state: Tables) -> Tables:
    """What an append may bring: an edge whose id exists is refused as such, and is counted by no driver alike."""
    existing = {key: {row["id"] for row in rows} for key, rows in state.items()}
    chosen = {
        key: rows if key.startswith("node:") else [row for row in rows if row["id"] not in existing.get(key, ())]
        for key, rows in puts.items()
    }
    return {key: rows for key, rows in chosen.items() if rows}


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Drivers]:
    root = tmp_path_factory.mktemp("drivers")

    class Made(dict[str, Drivers]):
        def __repr__(self) -> str:
            return f"{len(self)} graphs"

        def __missing__(self, schema: str) -> Drivers:
            folder = root / str(len(self))
            folder.mkdir()
            self[schema] = Drivers(folder, schema)
            return self[schema]

    return Made()


@pytest.mark.timeout(240)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(
    schema=SCHEMAS,
    state=STATES,
    puts=CHANGES.filter(bool),
    mode=st.sampled_from(["append", "merge", "merge", "overwrite"]),
    shared=st.booleans(),
    gone=st.sets(st.sampled_from(NAMES), max_size=2),
)
def test_all_drivers_find_the_same_violations(
    drivers: dict[str, Drivers], schema: str, state: Tables, puts: Tables, mode: str, shared: bool, gone: set[str]
) -> None:
    each = drivers[schema]
    each.reset(state)
    loads = without_existing_edges(puts, state) if mode == "append" else puts
    if loads != puts:
        refused = each.errors_in_tasks(puts, mode, SmallTasks(), shared=shared)
        assert any(isinstance(error, KeyConflict) for error in refused)
    if loads:
        assert each.in_tasks(loads, mode, SmallTasks(), shared=shared) == each.in_memory(loads, mode)
    deletes = removable(puts, gone)
    assert sorted(each.in_sql(by_id(puts), deletes)) == sorted(each.in_memory(by_id(puts), deletes=deletes))
    assert sorted(each.of_new_schema()) == sorted(each.of_first_rows(state))
