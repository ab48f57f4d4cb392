"""Generated schemas, states and changes: the violations found are those that a naive reading of the rules finds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.errors import CardinalityViolation, ConstraintViolation, OrphanEdge, UniqueViolation, ValueViolation
from omnigraph.transaction.constraints.validate import validate, violations
from transaction.small_graph import SmallGraph

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
    from omnigraph.transaction.write_set import TableChanges

State = dict[str, dict[str, dict[str, Any]]]
Told = tuple[str, str, Any, Any]
IDS = ["a", "b", "c", "d", "e"]
VALUES: dict[str, list[Any]] = {
    "n": [None, 0, 1, 2, 9],
    "f": [None, 0.0, -0.0, 1.5, math.nan, math.inf],
    "s": [None, "x", "y", "X"],
    "k": [None, "p", "q", "z"],
    "r": [None, "u", "v"],
}


@dataclass(frozen=True)
class Change:
    """A change as a model sees it: puts in order, removals, overwrite."""

    puts: list[dict[str, Any]] = field(default_factory=list)
    deletes: frozenset[str] = frozenset()
    overwrite: bool = False

    def lost(self, node_id: str) -> bool:
        return node_id not in self.put_ids if self.overwrite else node_id in self.deletes

    @property
    def put_ids(self) -> set[str]:
        return {row["id"] for row in self.puts}

    def survivors(self, committed: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
        touched = self.put_ids | self.deletes
        return [] if self.overwrite else [row for row_id, row in committed.items() if row_id not in touched]


RULES = [
    "@range(n, 0..5)\n@range(f, ..1.0)\n@unique(s)",
    '@range(n, 1..)\n@check(s, "[a-z]")\n@unique(n, s)\n@unique(f)',
]
EDGES = [("@card(0..1)", "@unique(src, dst)"), ("@card(1..2)", ""), ("@card(2..)", "@unique(src, n)")]


def _schema(key: str, rules: str, edge: tuple[str, str]) -> str:
    """Two node types and two edge types with some of all rules."""
    return (
        f"node A {{ n: I32?\n f: F64?\n s: String?\n k: enum(p, q)?\n r: String {key}\n {rules} }}\n"
        f"node B {{ n: I32 }}\n"
        f"edge E: A -> B {edge[0]} {{ n: I32?\n {edge[1]} }}\n"
        "edge F: A -> A { k: enum(p, q)? }"
    )


SCHEMAS = st.builds(_schema, st.sampled_from(["", "@key"]), st.sampled_from(RULES), st.sampled_from(EDGES))


def _node_a() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({name: st.sampled_from(values) for name, values in VALUES.items()})


def _rows(values: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, dict[str, Any]]]:
    rows = st.dictionaries(st.sampled_from(IDS), values, min_size=1, max_size=5)
    return rows.map(lambda found: {row_id: {"id": row_id, **row} for row_id, row in found.items()})


END = st.sampled_from(IDS[:3])
ROWS: dict[str, st.SearchStrategy[dict[str, dict[str, Any]]]] = {
    "node:A": _rows(_node_a()),
    "node:B": _rows(st.fixed_dictionaries({"n": st.sampled_from([None, 1])})),
    "edge:E": _rows(st.fixed_dictionaries({"src": END, "dst": END, "n": st.sampled_from([None, 1, 2])})),
    "edge:F": _rows(st.fixed_dictionaries({"src": END, "dst": END, "k": st.sampled_from([None, "p", "z"])})),
}
STATES = st.fixed_dictionaries(ROWS)


def _change(rows: dict[str, dict[str, Any]], gone: frozenset[str], kind: str) -> Change:
    if kind == "overwrite":
        return Change(list(rows.values()), overwrite=True)
    return Change([] if kind == "delete" else list(rows.values()), gone - (set() if kind == "delete" else set(rows)))


KINDS = st.sampled_from(["put", "put", "delete", "overwrite"])
CHANGES = st.fixed_dictionaries(
    {},
    optional={key: st.builds(_change, rows, st.frozensets(st.sampled_from(IDS)), KINDS) for key, rows in ROWS.items()},
)


def expected(catalog: Catalog, state: State, changes: Mapping[str, Change]) -> Iterator[Told]:
    """The rules, read naively."""
    for key in sorted(changes):
        for row in changes[key].puts:
            yield from _value_faults(_type(catalog, key), row)
    for key in sorted(changes):
        yield from _unique_faults(_type(catalog, key), changes[key], state[key])
    for name in sorted(catalog.edges):
        yield from _end_faults(catalog.edges[name], state, changes)
    for name in sorted(catalog.edges):
        if f"edge:{name}" in changes:
            yield from _count_faults(catalog.edges[name], state, changes)


def _type(catalog: Catalog, key: str) -> NodeType | EdgeType:
    kind, _, name = key.partition(":")
    return catalog.nodes[name] if kind == "node" else catalog.edges[name]


def _value_faults(kind: NodeType | EdgeType, row: dict[str, Any]) -> Iterator[Told]:
    for name, each in kind.properties.items():
        if row[name] is None and not each.type.nullable:
            yield "required", kind.name, row["id"], name
        if row[name] is not None and each.type.enum_values and row[name] not in each.type.enum_values:
            yield "enum", kind.name, row["id"], name
    for bounds in kind.rules.ranges:
        value = row[bounds.property]
        low = -math.inf if bounds.minimum is None else bounds.minimum
        high = math.inf if bounds.maximum is None else bounds.maximum
        if value is not None and not low <= value <= high:
            yield "range", kind.name, row["id"], bounds.property
    for check in kind.rules.checks:
        text = row[check.property]
        if text is not None and not any("a" <= letter <= "z" for letter in text):
            yield "check", kind.name, row["id"], check.property


def _unique_faults(kind: NodeType | EdgeType, change: Change, committed: dict[str, dict[str, Any]]) -> Iterator[Told]:
    groups = [*([kind.rules.key] if kind.rules.key else []), *kind.rules.unique]
    survivors = change.survivors(committed)
    for place, row in enumerate(change.puts):
        for columns in groups:
            mine = _tuple(row, columns)
            if mine is not None and mine in [_tuple(each, columns) for each in [*survivors, *change.puts[:place]]]:
                yield "unique", kind.name, row["id"], columns


def _tuple(row: dict[str, Any], columns: tuple[str, ...]) -> tuple[str, ...] | None:
    values = [row[each] for each in columns]
    return (
        None
        if None in values
        else tuple(repr(each + 0.0) if isinstance(each, float) else repr(each) for each in values)
    )


def _end_faults(edge: EdgeType, state: State, changes: Mapping[str, Change]) -> Iterator[Told]:
    change = changes.get(edge.table_key, Change())
    ends = (("src", f"node:{edge.source}"), ("dst", f"node:{edge.target}"))
    for row in change.puts:
        for end, node_key in ends:
            nodes = changes.get(node_key, Change())
            there = nodes.put_ids | {each["id"] for each in nodes.survivors(state[node_key])}
            if row[end] not in there:
                yield "orphan", edge.name, row["id"], end
    for row in sorted(change.survivors(state[edge.table_key]), key=lambda each: each["id"]):
        for end, node_key in ends:
            if changes.get(node_key, Change()).lost(row[end]):
                yield "orphan", edge.name, row["id"], end


def _count_faults(edge: EdgeType, state: State, changes: Mapping[str, Change]) -> Iterator[Told]:
    change, bounds = changes[edge.table_key], edge.cardinality
    before = {(row["id"], row["src"]) for row in state[edge.table_key].values()}
    after_rows = [*change.survivors(state[edge.table_key]), *change.puts]
    after = {(row["id"], row["src"]) for row in after_rows}
    gained = [row["src"] for row in change.puts if (row["id"], row["src"]) not in before]
    lost = sorted(source for row_id, source in before - after)
    for source in dict.fromkeys([*gained, *lost]):
        count = sum(1 for row in after_rows if row["src"] == source)
        too_many = bounds.maximum is not None and count > bounds.maximum
        if not changes.get(f"node:{edge.source}", Change()).lost(source) and (count < bounds.minimum or too_many):
            yield "count", edge.name, source, count


def _told(error: ConstraintViolation) -> Told:
    match error:
        case ValueViolation():
            return error.rule, error.type_name, error.row_id, error.property_name
        case UniqueViolation():
            return "unique", error.type_name, error.row_id, error.properties
        case OrphanEdge():
            return "orphan", error.type_name, error.row_id, error.end
        case CardinalityViolation():
            return "count", error.type_name, error.source_id, error.count
    raise AssertionError(error)


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SmallGraph]:
    """A graph for each schema that was drawn; examples of one schema replace its content."""
    root = tmp_path_factory.mktemp("oracle")

    class Graphs(dict[str, SmallGraph]):
        def __repr__(self) -> str:
            return f"{len(self)} graphs"

        def __missing__(self, schema: str) -> SmallGraph:
            self[schema] = SmallGraph(root / f"{len(self)}.omni", schema)
            return self[schema]

    return Graphs()


@pytest.mark.timeout(240)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(schema=SCHEMAS, state=STATES, several=st.lists(CHANGES, min_size=4, max_size=4))
def test_the_violations_are_those_of_a_naive_reading_in_the_same_order(
    graphs: dict[str, SmallGraph], schema: str, state: State, several: list[dict[str, Change]]
) -> None:
    graph = graphs[schema]
    for row in [*state["node:A"].values(), *state["node:B"].values()]:
        row.update({name: value for name, value in (("r", "u"), ("n", 1)) if row.get(name) is None and name in row})
    whole = {key: graph.change(key, list(rows.values()), overwrite=True) for key, rows in state.items()}
    graph.apply(whole, check=False)
    for changes in several:
        told = {
            key: graph.change(key, each.puts, each.deletes, overwrite=each.overwrite) for key, each in changes.items()
        }
        found = list(violations(graph.catalog, graph.view(), told))
        assert [_told(each) for each in found] == list(expected(graph.catalog, state, changes))
        _assert_first_is_raised(graph, told, found)


def _assert_first_is_raised(
    graph: SmallGraph, told: Mapping[str, TableChanges], found: list[ConstraintViolation]
) -> None:
    if not found:
        validate(graph.catalog, graph.view(), told)
        return
    with pytest.raises(type(found[0])) as error:
        validate(graph.catalog, graph.view(), told)
    assert str(error.value) == str(found[0])
