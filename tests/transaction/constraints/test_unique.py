"""Uniqueness: typed tuples, within a change and against the committed rows that it leaves alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from omnigraph.counters import counting
from omnigraph.errors import UniqueViolation
from omnigraph.transaction.constraints.validate import validate, violations
from transaction.small_graph import SmallGraph

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.errors import ConstraintViolation
    from omnigraph.transaction.write_set import TableChanges

SCHEMA = """
node User {
    email: String? @unique
    born: Date? @unique
    seen: DateTime? @unique
    score: F64? @unique
    left: String?
    right: String?
    tags: [String]?
    @unique(left, right)
    @unique(tags)
}
node Town { name: String @key  zip: I32? }
node Cell { x: I32  y: I64  @key(x, y) }
node Mass { kg: F64 @key  at: DateTime? }
node Event { at: DateTime  on: Date  ok: Bool  @key(at, on, ok) }
edge Rates: User -> Town { stars: I32?  @unique(src, dst) }
edge Visits: User -> Town { day: Date  @key(src, dst, day) }
"""
USER, TOWN, CELL, RATES, VISITS = "node:User", "node:Town", "node:Cell", "edge:Rates", "edge:Visits"


@pytest.fixture
def graph(tmp_path: Path) -> SmallGraph:
    return SmallGraph(tmp_path / "g.omni", SCHEMA)


def _found(graph: SmallGraph, *changes: TableChanges) -> list[ConstraintViolation]:
    return list(violations(graph.catalog, graph.view(), {each.table_key: each for each in changes}))


def _users(graph: SmallGraph, *rows: dict[str, Any], **how: Any) -> list[str]:
    return [str(each) for each in _found(graph, graph.change(USER, list(rows), **how))]


def test_two_new_rows_cannot_share_a_unique_value(graph: SmallGraph) -> None:
    assert _users(graph, {"id": "a", "email": "x"}, {"id": "b", "email": "y"}, {"id": "c", "email": "x"}) == [
        "@unique violation on User.email: 'x' of row 'c' is held by row 'a'"
    ]


def test_a_committed_row_holds_its_value(graph: SmallGraph) -> None:
    graph.load(node_User=[{"id": "a", "email": "x"}])
    [error] = _found(graph, graph.change(USER, [{"id": "b", "email": "x"}]))
    assert isinstance(error, UniqueViolation)
    assert (error.code, error.type_name, error.properties, error.values, error.row_id, error.holder) == (
        "unique_violation", "User", ("email",), ("x",), "b", "a",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("puts", "how"),
    [
        ([{"id": "a", "email": "x"}], {}),
        ([{"id": "a", "email": "z"}, {"id": "b", "email": "x"}], {}),
        ([{"id": "a", "email": "y"}, {"id": "b", "email": "x"}], {}),
        ([{"id": "c", "email": "x"}], {"deletes": {"a"}}),
        ([{"id": "c", "email": "x"}], {"overwrite": True}),
        ([{"id": "c"}, {"id": "d"}], {}),
    ],
    ids=["its own row", "chained", "swapped", "deleted", "overwritten", "null"],
)
def test_a_value_is_free_for(graph: SmallGraph, puts: list[dict[str, Any]], how: dict[str, Any]) -> None:
    graph.load(node_User=[{"id": "a", "email": "x"}, {"id": "b", "email": "y"}, {"id": "n"}])
    assert _users(graph, *puts, **how) == []


def test_a_tuple_is_not_its_text_and_a_null_member_exempts_it(graph: SmallGraph) -> None:
    graph.load(node_User=[{"id": "a", "left": "p|q", "right": "r"}, {"id": "n", "left": "p", "right": None}])
    fine = [{"id": "b", "left": "p", "right": "q|r"}, {"id": "c", "left": "p"}, {"id": "d", "left": "p|q"}]
    assert _users(graph, *fine) == []
    assert _users(graph, {"id": "e", "left": "p|q", "right": "r"}) == [
        "@unique violation on User.(left, right): ('p|q', 'r') of row 'e' is held by row 'a'"
    ]


@pytest.mark.parametrize(
    ("column", "held", "same", "other"),
    [
        ("born", 10, 10, 11),
        ("seen", 86_400_001, 86_400_001, 86_400_000),
        ("score", 0.0, -0.0, 0.5),
        ("score", float("nan"), float("nan"), 0.5),
        ("tags", ["a", "b"], ["a", "b"], ["b", "a"]),
    ],
)
def test_values_compare_by_their_type(graph: SmallGraph, column: str, held: Any, same: Any, other: Any) -> None:
    graph.load(node_User=[{"id": "a", column: held}])
    assert _users(graph, {"id": "b", column: other}) == []
    assert len(_users(graph, {"id": "b", column: same})) == 1
    assert len(_users(graph, {"id": "b", column: other}, {"id": "c", column: other})) == 1


def test_a_moment_is_told_with_its_time_of_day(graph: SmallGraph) -> None:
    graph.load(node_User=[{"id": "a", "seen": 86_400_001}])
    assert _users(graph, {"id": "b", "seen": 86_400_001}) == [
        "@unique violation on User.seen: 1970-01-02T00:00:00.001000 of row 'b' is held by row 'a'"
    ]


def test_thousands_of_rows_find_the_few_holders(graph: SmallGraph) -> None:
    graph.load(node_User=[{"id": f"a{n}", "email": f"e{n}", "left": "l", "right": f"r{n}"} for n in range(3_000)])
    rows = [{"id": f"b{n}", "email": f"e{n}", "left": "l", "right": f"r{n + 1}"} for n in range(2_999, 6_000)]
    assert _users(graph, *rows) == ["@unique violation on User.email: 'e2999' of row 'b2999' is held by row 'a2999'"]


def test_two_ids_with_one_key_are_refused(graph: SmallGraph) -> None:
    rows = [{"id": "Rome", "name": "Rome"}, {"id": "r2", "name": "Rome"}]
    assert [str(each) for each in _found(graph, graph.change(TOWN, rows))] == [
        "@key violation on Town.name: 'Rome' of row 'r2' is held by row 'Rome'"
    ]


def test_an_id_of_another_making_cannot_take_a_committed_key(graph: SmallGraph) -> None:
    graph.load(node_Town=[{"id": "Rome", "name": "Rome"}])
    [error] = _found(graph, graph.change(TOWN, [{"id": "r2", "name": "Rome"}]))
    assert (error.code, error.row_id) == ("unique_violation", "r2")
    assert _found(graph, graph.change(TOWN, [{"id": "Rome", "name": "Rome", "zip": 5}])) == []


@pytest.mark.parametrize(
    ("table_key", "row"),
    [
        (TOWN, {"id": "Rome", "name": "Rome"}),
        (CELL, {"id": '["1","-2"]', "x": 1, "y": -2}),
        ("node:Mass", {"id": "0.1", "kg": 0.1}),
        ("node:Event", {"id": '["86400001","true","3"]', "at": 86_400_001, "on": 3, "ok": True}),
        (VISITS, {"id": '["3","R\\"m","a"]', "src": "a", "dst": 'R"m', "day": 3}),
        (VISITS, {"id": '["3","Rome","a"]', "src": "a", "dst": "Rome", "day": 3}),
    ],
    ids=["text", "numbers", "float", "mixed", "escaped edge", "edge"],
)
def test_a_row_with_the_id_of_its_key_needs_no_lookup_and_another_id_does(
    graph: SmallGraph, table_key: str, row: dict[str, Any]
) -> None:
    graph.apply({table_key: graph.change(table_key, [row])}, check=False)
    changes = {table_key: graph.change(table_key, [row])}
    view = graph.view()
    with counting() as counts:
        found = [each for each in violations(graph.catalog, view, changes) if isinstance(each, UniqueViolation)]
    assert found == []
    assert counts.table_scans == 0
    other = {table_key: graph.change(table_key, [row | {"id": "other"}])}
    kinds = [type(each) for each in violations(graph.catalog, view, other)]
    assert kinds[0] is UniqueViolation


def test_ends_of_edges_can_be_part_of_a_unique_tuple(graph: SmallGraph) -> None:
    graph.load(node_User=[{"id": "a"}], node_Town=[{"id": "Rome", "name": "Rome"}, {"id": "Oslo", "name": "Oslo"}])
    graph.load(edge_Rates=[{"id": "r1", "src": "a", "dst": "Rome"}])
    assert _found(graph, graph.change(RATES, [{"id": "r2", "src": "a", "dst": "Oslo"}])) == []
    [error] = _found(graph, graph.change(RATES, [{"id": "r3", "src": "a", "dst": "Rome"}]))
    assert "Rates.(dst, src): ('Rome', 'a') of row 'r3' is held by row 'r1'" in str(error)


def test_the_probe_of_committed_rows_costs_the_same_for_one_row_and_for_many(graph: SmallGraph) -> None:
    graph.load(node_User=[{"id": f"a{n}", "email": f"e{n}"} for n in range(10)])
    scans = []
    for size in (1, 4, 64):
        change = graph.change(USER, [{"id": f"b{n}", "email": f"f{n}"} for n in range(size)])
        view = graph.view()
        with counting() as counts:
            validate(graph.catalog, view, {USER: change})
        scans.append(counts.table_scans)
    assert max(scans) == 1
