"""Pending writes: later statements see earlier ones, pending rows stand over committed ones, and nothing is touched."""

from __future__ import annotations

import random  # noqa: TID251
import string
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from omnigraph.counters import counting
from omnigraph.errors import InvalidInput, KeyConflict, NotFound, ResourceLimitExceeded, UniqueViolation, ValueViolation
from omnigraph.storage.filters.model import And, Compare, IsNull, Not, equal, one_of
from omnigraph.transaction.write_buffer import Budget, Deleted
from transaction.small_graph import SmallGraph

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from omnigraph.storage.filters.model import Filter
    from omnigraph.storage.tables.row_rewrite import RowLocations
    from omnigraph.transaction.write_buffer import WriteBuffer

SCHEMA = """
node Person { name: String  age: I32? }
node Town { name: String @key }
node Point { at: Vector(2)?  born: DateTime?  photo: Blob? }
edge Knows: Person -> Person { since: I32? }
edge LivesIn: Person -> Town
"""
PERSON, KNOWS, LIVES, TOWN, POINT = "node:Person", "edge:Knows", "edge:LivesIn", "node:Town", "node:Point"


def _person(name: str, age: int | None = None) -> dict[str, Any]:
    return {"id": name, "name": name, "age": age}


def _knows(source: str, target: str) -> dict[str, Any]:
    return {"id": f"{source}-{target}", "src": source, "dst": target}


@pytest.fixture
def graph(tmp_path: Path) -> SmallGraph:
    graph = SmallGraph(tmp_path / "g.omni", SCHEMA)
    graph.load(
        node_Person=[_person("ada", 36), _person("bob", 20), _person("cy")],
        node_Town=[{"id": "Rome", "name": "Rome"}],
        edge_Knows=[_knows("ada", "bob"), _knows("bob", "ada"), _knows("bob", "cy")],
        edge_LivesIn=[{"id": "l1", "src": "ada", "dst": "Rome"}],
    )
    return graph


@pytest.fixture
def pending(graph: SmallGraph) -> WriteBuffer:
    return graph.pending()


def _put(graph: SmallGraph, pending: WriteBuffer, *rows: dict[str, Any], only_new: bool = False) -> None:
    pending.put(PERSON, graph.rows(PERSON, list(rows)), only_new=only_new)


def _ages(pending: WriteBuffer, where: Filter | None = None) -> dict[str, int | None]:
    return {row["id"]: row["age"] for row in pending.read(PERSON, ["id", "age"], where).to_pylist()}


def test_a_read_sees_pending_rows_over_committed_ones(graph: SmallGraph, pending: WriteBuffer) -> None:
    _put(graph, pending, _person("ada", 1), _person("di", 2))
    assert _ages(pending) == {"ada": 1, "bob": 20, "cy": None, "di": 2}


def test_a_filter_is_asked_of_the_pending_row_not_of_the_committed_one_below(
    graph: SmallGraph, pending: WriteBuffer
) -> None:
    _put(graph, pending, _person("ada", 1), _person("cy", 50))
    assert _ages(pending, Compare("age", ">", 30)) == {"cy": 50}
    assert _ages(pending, IsNull("age")) == {}
    assert _ages(pending, Not(Compare("age", ">", 30))) == {"ada": 1, "bob": 20}


def test_the_last_put_of_an_id_wins_within_a_call_and_between_calls(graph: SmallGraph, pending: WriteBuffer) -> None:
    _put(graph, pending, _person("di", 1), _person("di", 2))
    assert _ages(pending, equal("id", "di")) == {"di": 2}
    _put(graph, pending, _person("di", 3))
    assert _ages(pending, equal("id", "di")) == {"di": 3}
    assert pending.changes()[PERSON].puts is not None
    assert pending.changes()[PERSON].puts.to_pylist() == [_person("di", 3) | {"age": 3}]  # type: ignore[union-attr]


def test_a_deletion_counts_only_what_was_there_and_not_removed_before(graph: SmallGraph, pending: WriteBuffer) -> None:
    _put(graph, pending, _person("di"), _person("bob", 21))
    assert pending.delete(PERSON, ["ada", "nobody"]) == 1
    assert pending.delete(PERSON, ["ada", "bob", "di", "di"]) == 2
    assert pending.delete(PERSON, ["ada", "bob", "di"]) == 0
    change = pending.changes()[PERSON]
    assert (change.puts, change.deletes) == (None, frozenset({"ada", "bob"}))
    assert _ages(pending) == {"cy": None}


def test_a_removed_row_can_come_back_even_as_a_new_one(graph: SmallGraph, pending: WriteBuffer) -> None:
    pending.delete(PERSON, ["ada"])
    _put(graph, pending, _person("ada", 5), only_new=True)
    change = pending.changes()[PERSON]
    assert (change.deletes, change.only_new, change.new_ids) == (frozenset(), False, frozenset())
    assert pending.delete(PERSON, ["ada"]) == 1
    assert pending.changes()[PERSON].deletes == frozenset({"ada"})


def test_an_upsert_wins_over_an_insert_of_the_same_id_and_leaves_others_strict(
    graph: SmallGraph, pending: WriteBuffer
) -> None:
    _put(graph, pending, _person("ada", 1), _person("di"), only_new=True)
    assert pending.changes()[PERSON].only_new
    _put(graph, pending, _person("ada", 2))
    change = pending.changes()[PERSON]
    assert (change.only_new, change.new_ids) == (False, frozenset({"di"}))


@pytest.mark.parametrize("calls", [[["di", "di"]], [["di"], ["di"]]])
def test_an_id_cannot_be_new_twice(graph: SmallGraph, pending: WriteBuffer, calls: list[list[str]]) -> None:
    def run() -> None:
        for names in calls:
            _put(graph, pending, *map(_person, names), only_new=True)
        pending.changes()

    with pytest.raises(KeyConflict, match="'di'"):
        run()


def test_a_call_that_repeats_a_key_is_refused_in_any_mode(graph: SmallGraph, pending: WriteBuffer) -> None:
    rows = graph.rows(TOWN, [{"id": "Oslo", "name": "Oslo"}] * 2)
    for only_new in (True, False):
        with pytest.raises(UniqueViolation, match=r"@key violation on Town\.name: 'Oslo'"):
            pending.put(TOWN, rows, only_new=only_new)
    pending.put(TOWN, rows.slice(0, 1), only_new=False)
    pending.put(TOWN, rows.slice(0, 1), only_new=False)
    assert pending.changes()[TOWN].puts.num_rows == 1  # type: ignore[union-attr]


def test_an_overwrite_hides_every_committed_row_and_forgets_what_was_pending(
    graph: SmallGraph, pending: WriteBuffer
) -> None:
    _put(graph, pending, _person("di"))
    pending.overwrite(PERSON, graph.rows(PERSON, [_person("eve", 9)]))
    _put(graph, pending, _person("ada", 1), only_new=True)
    assert _ages(pending) == {"eve": 9, "ada": 1}
    assert pending.exists(PERSON, ["bob", "eve", "ada"]) == {"eve", "ada"}
    assert pending.delete(PERSON, ["bob", "eve"]) == 1
    change = pending.changes()[PERSON]
    assert change.overwrite
    assert change.puts is not None
    assert (change.puts.column("id").to_pylist(), change.deletes) == (["ada"], frozenset())


def test_an_overwrite_with_no_rows_is_a_change(graph: SmallGraph, pending: WriteBuffer) -> None:
    pending.overwrite(PERSON, graph.rows(PERSON, []))
    assert pending.changes()[PERSON].overwrite
    assert _ages(pending) == {}


def test_lookups_by_value_see_pending_rows_and_not_what_they_replace(graph: SmallGraph, pending: WriteBuffer) -> None:
    _put(graph, pending, _person("ada", 20), _person("bob", 1))
    found = pending.rows_where(PERSON, "age", pa.array([20, 36, None], pa.int32()), ["id"])
    assert found.to_pylist() == [{"id": "ada"}]
    assert pending.exists(PERSON, ["ada", "cy", "nobody"]) == {"ada", "cy"}


def test_removing_a_node_takes_its_edges_committed_and_pending_along(graph: SmallGraph, pending: WriteBuffer) -> None:
    pending.put(KNOWS, graph.rows(KNOWS, [_knows("cy", "ada"), _knows("ada", "ada")]), only_new=True)
    assert pending.delete(KNOWS, ["ada-bob"]) == 1
    assert pending.delete_nodes("Person", ["ada", "nobody"]) == Deleted(nodes=1, edges=4)
    assert pending.delete_nodes("Person", ["ada"]) == Deleted(0, 0)
    changes = pending.changes()
    assert {key: (change.puts, set(change.deletes)) for key, change in changes.items()} == {
        PERSON: (None, {"ada"}),
        KNOWS: (None, {"ada-bob", "bob-ada"}),
        LIVES: (None, {"l1"}),
    }


def test_an_edge_moved_away_from_a_node_survives_its_removal(graph: SmallGraph, pending: WriteBuffer) -> None:
    pending.put(KNOWS, graph.rows(KNOWS, [_knows("bob", "cy") | {"id": "ada-bob"}]), only_new=False)
    assert pending.delete_nodes("Person", ["ada"]) == Deleted(nodes=1, edges=2)
    assert pending.exists(KNOWS, ["ada-bob", "bob-ada"]) == {"ada-bob"}


def test_a_node_without_edges_leaves_the_edge_tables_alone(graph: SmallGraph) -> None:
    graph.load(node_Person=[_person("di")])
    receipt = graph.write(lambda pending: pending.delete_nodes("Person", ["di"]))
    assert receipt is not None
    assert receipt.snapshot[KNOWS].version == 2
    assert "di" not in graph.content(PERSON)


def test_what_is_pending_becomes_one_commit_and_committed_tables_stay_untouched_until_then(graph: SmallGraph) -> None:
    before = graph.content(PERSON)

    def statements(pending: WriteBuffer) -> None:
        _put(graph, pending, _person("di", 1), only_new=True)
        older = pending.read(PERSON, where=Compare("age", "<", 30))
        pending.put(PERSON, older.set_column(1, "age", pa.array([100] * older.num_rows, pa.int32())), only_new=False)
        pending.put(KNOWS, graph.rows(KNOWS, [_knows("di", "ada")]), only_new=True)
        assert graph.content(PERSON) == before

    receipt = graph.write(statements)
    assert receipt is not None
    assert {row["id"]: row["age"] for row in graph.content(PERSON).values()} == {
        "ada": 36, "bob": 100, "cy": None, "di": 100,
    }  # fmt: skip
    assert "di-ada" in graph.content(KNOWS)


def test_nothing_pending_is_nothing_to_commit(graph: SmallGraph) -> None:
    assert graph.write(lambda pending: pending.delete(PERSON, ["nobody"])) is None


def test_every_table_that_was_read_is_noted_for_the_commit(graph: SmallGraph, pending: WriteBuffer) -> None:
    pending.delete_nodes("Person", ["cy"])
    assert set(pending.view.reads) == {PERSON, KNOWS, LIVES}


def test_memory_over_the_budget_is_refused_with_a_way_out(graph: SmallGraph) -> None:
    pending = graph.pending(budget=Budget(bytes=4_000))
    _put(graph, pending, _person("x" * 100))
    with pytest.raises(ResourceLimitExceeded, match="bulk loader or the Spark pipeline") as error:
        _put(graph, pending, _person("y" * 5_000))
    assert (error.value.limit, error.value.actual > 4_000) == (4_000, True)


def test_rows_of_another_shape_are_refused_by_name(graph: SmallGraph, pending: WriteBuffer) -> None:
    rows = graph.rows(PERSON, [_person("di")])
    with pytest.raises(InvalidInput, match="rows of Person lack age"):
        pending.put(PERSON, rows.drop_columns("age"), only_new=True)
    with pytest.raises(InvalidInput, match="unknown columns size"):
        pending.put(PERSON, rows.append_column("size", pa.array([1])), only_new=True)
    with pytest.raises(InvalidInput, match=r"Person\.age does not take these values"):
        pending.put(PERSON, rows.set_column(1, "age", pa.array([2**40])), only_new=True)
    with pytest.raises(InvalidInput, match="a row of Person has no id"):
        _put(graph, pending, {"name": "nameless"})
    with pytest.raises(NotFound, match="node:Dragon"):
        pending.read("node:Dragon")


def test_columns_may_come_in_any_order_and_in_wider_types(graph: SmallGraph, pending: WriteBuffer) -> None:
    rows = pa.table({"age": pa.array([7], pa.int64()), "name": pa.array(["di"], pa.large_string()), "id": ["di"]})
    pending.put(PERSON, rows, only_new=True)
    assert pending.changes()[PERSON].puts.schema == graph.schemas[PERSON]  # type: ignore[union-attr]


def test_a_vector_of_the_wrong_length_is_told_with_its_row(graph: SmallGraph, pending: WriteBuffer) -> None:
    rows = graph.rows(POINT, [{"id": "p"}, {"id": "q"}])
    lists = pa.array([[1.0, 2.0], [1.0]], pa.list_(pa.float32()))
    with pytest.raises(ValueViolation, match=r"Point\.at expects 2 dimensions, got 1 \(row 'q'\)"):
        pending.put(POINT, rows.set_column(1, "at", lists), only_new=True)
    pending.put(POINT, rows.set_column(1, "at", pa.array([[1.0, 2.0], None], lists.type)), only_new=True)
    assert pending.read(POINT, ["at"]).column(0).to_pylist() == [[1.0, 2.0], None]


def test_moments_keep_their_time_of_day_in_lookups(graph: SmallGraph) -> None:
    graph.load(node_Point=[{"id": "p", "born": 86_400_001}, {"id": "q", "born": 86_400_000}])
    pending = graph.pending()
    pending.put(POINT, graph.rows(POINT, [{"id": "r", "born": 86_400_001}]), only_new=True)
    wanted = pa.array([86_400_001], pa.int64()).view(pa.date64())
    found = pending.rows_where(POINT, "born", wanted, ["id"])
    assert found.column("id").to_pylist() == ["p", "r"]


def test_blobs_can_be_put_and_are_not_a_part_of_reads(graph: SmallGraph) -> None:
    def put(pending: WriteBuffer) -> None:
        pending.put(POINT, graph.rows(POINT, [{"id": "p", "photo": {"data": b"png", "uri": None}}]), only_new=True)
        assert pending.read(POINT).column_names == ["id", "at", "born"]
        with pytest.raises(InvalidInput, match=r"Point\.photo"):
            pending.read(POINT, ["photo"])

    graph.write(put)
    assert graph.content(POINT)["p"]["photo"]["size"] == 3


def test_deletes_by_id_ask_the_table_once(graph: SmallGraph, pending: WriteBuffer) -> None:
    with counting() as counts:
        pending.delete(PERSON, ["ada", "bob"])
        pending.delete(PERSON, ["cy"])
    assert (counts.table_opens, counts.table_scans) == (0, 1)


@pytest.mark.parametrize("seed", range(12))
def test_the_locations_that_reads_left_are_those_that_a_lookup_finds(graph: SmallGraph, seed: int) -> None:
    chance = random.Random(seed)
    graph.load(node_Person=[_person(f"p{each}", each % 5) for each in range(20)])
    pending = graph.pending()
    for _ in range(12):
        name, age = f"p{chance.randrange(25)}", chance.randrange(5)
        match chance.randrange(4):
            case 0:
                found = pending.read(PERSON, None, Compare("age", "=", age))
                older = pa.array([age + 1] * len(found), pa.int32())
                changed = found.set_column(found.column_names.index("age"), "age", older)
                pending.put(PERSON, changed, only_new=False)
            case 1:
                pending.rows_where(PERSON, "id", pa.array([name]))
                pending.put(PERSON, graph.rows(PERSON, [_person(name, age)]), only_new=False)
            case 2:
                pending.put(PERSON, graph.rows(PERSON, [_person(name, age)]), only_new=False)
            case _:
                pending.delete(PERSON, pending.read(PERSON, ["id"], Compare("age", "=", age)).column("id"))
    kept = pending._table(PERSON).located_change().locations
    changed = pending._table(PERSON).buffered().changed_ids
    assert kept is not None
    assert _sorted(kept) == _sorted(graph.view().locations(PERSON, changed))


def _sorted(locations: RowLocations) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in locations.rows.to_pylist())


NAMES = [*string.ascii_lowercase[:8]]
AGES = st.one_of(st.none(), st.integers(0, 4))
ROWS = st.lists(st.tuples(st.sampled_from(NAMES), AGES), max_size=4)
IDS = st.lists(st.sampled_from(NAMES), max_size=4)
WHERES: dict[str, tuple[Filter, Any]] = {
    "known": (Not(IsNull("age")), lambda age: age is not None),
    "above one": (Compare("age", ">", 1), lambda age: age is not None and age > 1),
    "not above one": (Not(Compare("age", ">", 1)), lambda age: age is not None and age <= 1),
    "none of two": (Not(one_of("age", [0, None])), lambda _: False),
    "two or three": (one_of("age", [2, 3, None]), lambda age: age in (2, 3)),
    "between": (And((Compare("age", ">=", 1), Compare("age", "<", 3))), lambda age: age is not None and 1 <= age < 3),
}


class PendingAgainstDicts(RuleBasedStateMachine):
    """The same statements on pending writes and on a dict; commits in between make pending rows committed ones."""

    graph: SmallGraph
    places: Iterable[Path]

    @initialize(rows=ROWS)
    def begin(self, rows: list[tuple[str, int | None]]) -> None:
        graph = type(self).graph
        graph.apply({PERSON: graph.change(PERSON, [_person(*each) for each in dict(rows).items()], overwrite=True)})
        self.model = dict(rows)
        self.pending = graph.pending()

    @rule(rows=ROWS)
    def put(self, rows: list[tuple[str, int | None]]) -> None:
        self.pending.put(PERSON, self.graph.rows(PERSON, [_person(*each) for each in rows]), only_new=False)
        self.model.update(rows)

    @rule(rows=ROWS)
    def insert(self, rows: list[tuple[str, int | None]]) -> None:
        fresh = {name: age for name, age in rows if name not in self.model}
        self.pending.put(PERSON, self.graph.rows(PERSON, [_person(*each) for each in fresh.items()]), only_new=True)
        self.model.update(fresh)

    @rule(ids=IDS)
    def delete(self, ids: list[str]) -> None:
        gone = {each for each in ids if each in self.model}
        assert self.pending.delete(PERSON, ids) == len(gone)
        for each in gone:
            del self.model[each]

    @rule(rows=ROWS)
    def overwrite(self, rows: list[tuple[str, int | None]]) -> None:
        self.pending.overwrite(PERSON, self.graph.rows(PERSON, [_person(*each) for each in rows]))
        self.model = dict(rows)

    @rule(name=st.sampled_from(sorted(WHERES)))
    def read(self, name: str) -> None:
        where, holds = WHERES[name]
        expected = {each: age for each, age in self.model.items() if holds(age)}
        assert _ages(self.pending, where) == expected

    @rule(ids=IDS, ages=st.lists(AGES, max_size=3))
    def look_up(self, ids: list[str], ages: list[int | None]) -> None:
        assert self.pending.exists(PERSON, ids) == {each for each in ids if each in self.model}
        found = self.pending.rows_where(PERSON, "age", pa.array(ages, pa.int32()), ["id"]).column("id").to_pylist()
        assert sorted(map(str, found)) == sorted(n for n, age in self.model.items() if age is not None and age in ages)

    @rule()
    def commit(self) -> None:
        self.graph.apply(self.pending.changes())
        assert {row["id"]: row["age"] for row in self.graph.content(PERSON).values()} == self.model
        self.pending = self.graph.pending()

    @invariant()
    def sees_what_the_model_says(self) -> None:
        if hasattr(self, "pending"):
            found = self.pending.read(PERSON, ["id", "age"]).to_pylist()
            assert sorted(((row["id"], row["age"]) for row in found), key=repr) == sorted(self.model.items(), key=repr)


@pytest.mark.timeout(120)
def test_pending_writes_behave_like_a_dict(tmp_path: Path) -> None:
    PendingAgainstDicts.graph = SmallGraph(tmp_path / "model.omni", SCHEMA)
    run_state_machine_as_test(
        PendingAgainstDicts, settings=settings(max_examples=25, stateful_step_count=25, deadline=None)
    )
