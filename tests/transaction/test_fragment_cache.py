"""What a mutation remembers of its tables: nothing is read twice, and nothing that was remembered is ever wrong."""

from __future__ import annotations

import datetime as dt
import random  # noqa: TID251
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.cache import ByteCache
from omnigraph.counters import counting
from omnigraph.storage.filters.arrow_eval import columns_of
from omnigraph.storage.filters.model import And, IsNull, Not, Or, equal
from omnigraph.storage.tables.fragment_cache import FRAGMENT_BYTES, CachedRows, FragmentCache
from omnigraph.storage.tables.table import Pin
from omnigraph.transaction.read_view import read_matching
from servers.counting_proxy import CountingProxy

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.storage.tables.table import Table, TableStore
    from servers.seaweed import Seaweed

SCHEMA = """
node Person { name: String @key  age: I32?  city: String? }
node Note { text: String }
edge Knows: Person -> Person
"""
ADD = "query q($n: String, $a: I32) { insert Person { name: $n, age: $a } }"
SET = "query q($n: String, $a: I32) { update Person set { age: $a } where name = $n }"
DROP = "query q($n: String) { delete Person where name = $n }"
ALL = "query q() { match { $p: Person } return { $p.name, $p.age } }"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "graph.omni", schema=SCHEMA)


def people(graph: og.Graph, branch: str = "main") -> dict[str, int]:
    return {row["p.name"]: row["p.age"] for row in graph.query(ALL, branch=branch).to_pylist()}


def scans(graph: og.Graph, query: str, params: dict[str, Any], branch: str = "main") -> int:
    """How often a mutation reads a table, beside the count of rows of the new version, which Lance has at hand."""
    with counting() as counts:
        graph.mutate(query, params, branch=branch)
    return counts.table_scans - 1


# -- nothing is read twice ---------------------------------------------------------------------------------------------


def test_inserts_and_updates_one_after_the_other_read_nothing(graph: og.Graph) -> None:
    graph.mutate(ADD, {"n": "ada", "a": 0})
    assert [scans(graph, ADD, {"n": f"p{each}", "a": each}) for each in range(6)] == [0] * 6
    assert [scans(graph, SET, {"n": "ada", "a": each}) for each in range(6)] == [0] * 6
    assert people(graph)["ada"] == 5


def test_a_process_reads_what_others_wrote_once(graph: og.Graph, tmp_path: Path) -> None:
    for each in range(5):
        graph.mutate(ADD, {"n": f"p{each}", "a": each})
    other = og.open(tmp_path / "graph.omni")
    assert scans(other, SET, {"n": "p3", "a": 30}) > 0
    assert scans(other, SET, {"n": "p4", "a": 40}) == 0
    assert people(graph) == {"p0": 0, "p1": 1, "p2": 2, "p3": 30, "p4": 40}


def test_rows_of_a_fragment_that_lost_others_are_known_too(graph: og.Graph) -> None:
    graph.load([{"type": "Person", "data": {"name": f"p{each}", "age": each}} for each in range(9)])
    graph.mutate(SET, {"n": "p0", "a": 100})
    assert [scans(graph, SET, {"n": f"p{each}", "a": 100 + each}) for each in range(1, 5)] == [0] * 4
    graph.mutate(DROP, {"n": "p5"})
    with counting() as counts:
        assert graph.mutate(SET, {"n": "p5", "a": 1}).commit is None
    assert counts.table_scans == 0
    assert people(graph) == {"p0": 100, "p1": 101, "p2": 102, "p3": 103, "p4": 104, "p6": 6, "p7": 7, "p8": 8}


def lookups(graph: og.Graph, query: str, params: dict[str, Any] | None = None) -> list[str]:
    """The tables in which a mutation looks rows up, once for each time that it does."""
    with counting() as counts:
        graph.mutate(query, params or {})
    found = [each.removeprefix("row_lookups ") for each in counts.requests if each.startswith("row_lookups ")]
    assert counts.row_lookups == len(found)
    return found


def test_every_statement_looks_its_rows_up_once_and_the_commit_not_again(graph: og.Graph) -> None:
    graph.load([{"type": "Person", "data": {"name": f"p{each}", "age": each}} for each in range(9)])
    graph.mutate('query q() { insert Note { text: "a" } insert Note { text: "b" } }')
    assert lookups(graph, ADD, {"n": "p0", "a": 1}) == ["node:Person"]
    assert lookups(graph, SET, {"n": "p1", "a": 1}) == ["node:Person"]
    assert lookups(graph, "query q() { update Person set { age: 7 } where age >= 0 }") == ["node:Person"]
    assert lookups(graph, 'query q() { upsert Person { name: "p2", age: 9 } }') == ["node:Person"]
    assert lookups(graph, 'query q() { upsert Person { name: "new", age: 9 } }') == ["node:Person"]
    assert lookups(graph, 'query q() { delete Note where text = "a" }') == ["node:Note"]
    twice = (
        'query q() { update Note set { text: "c" } where text = "b"  update Note set { text: "d" } where text = "c" }'
    )
    assert lookups(graph, twice) == ["node:Note"] * 2
    assert people(graph) == {**dict.fromkeys([f"p{each}" for each in range(9)], 7), "p2": 9, "new": 9}


@pytest.mark.parametrize("indexed", [False, True])
def test_an_update_in_a_table_that_is_not_cached_scans_it_once(tmp_path: Path, indexed: bool) -> None:
    graph = og.init(tmp_path / "large.omni", schema=SCHEMA)
    city = "x" * 200
    graph.load([{"type": "Person", "data": {"name": f"p{n}", "age": n, "city": f"{city}{n}"}} for n in range(4_000)])
    if indexed:
        graph.optimize()
    other = og.open(tmp_path / "large.omni")
    with counting() as counts:
        other.mutate(SET, {"n": "p77", "a": -1})
    reads = [each for each in counts.requests if each.startswith("table_scans")]
    assert counts.row_lookups == 1
    assert len(reads) - 1 == (1 if indexed else 2), "without an index: the tested column, then the row; never the ids"
    assert people(graph)["p77"] == -1


@pytest.mark.s3
def test_a_warm_insert_takes_twelve_requests_and_so_does_an_update(
    s3_server: Seaweed, s3_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with CountingProxy(s3_server.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.endpoint)
        graph = og.init(f"{s3_uri}.omni", schema=SCHEMA)
        for each in range(3):
            graph.mutate(ADD, {"n": f"p{each}", "a": each})
        asked = []
        for query in (ADD, SET):
            proxy.reset()
            graph.mutate(query, {"n": "ada", "a": 1})
            asked.append(len(proxy.requests))
        assert asked == [12, 12]


# -- nothing that was remembered is wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(each, marks=pytest.mark.slow) for each in range(2, 40))])
def test_two_handles_and_a_branch_that_write_at_random_keep_what_was_written(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    place = tmp_path / "graph.omni"
    handles = [og.init(place, schema=SCHEMA), og.open(place)]
    handles[0].load([{"type": "Person", "data": {"name": f"p{each}", "age": each}} for each in range(6)])
    handles[0].branches.create("side")
    model = {branch: {f"p{each}": each for each in range(6)} for branch in ("main", "side")}
    for turn in range(40):
        graph, branch = chance.choice(handles), chance.choice(["main", "side"])
        name, query = f"p{chance.randrange(9)}", chance.choice([ADD, SET, SET, DROP])
        params = {"n": name} if query is DROP else {"n": name, "a": turn}
        graph.mutate(query, params, branch=branch)
        if query is DROP:
            model[branch].pop(name, None)
        elif query is ADD or name in model[branch]:
            model[branch][name] = turn
        if chance.random() < 0.1:
            graph.optimize()
    for branch, expected in model.items():
        assert people(og.open(place), branch) == expected


def test_rows_that_two_branches_removed_from_one_file_are_told_apart(graph: og.Graph) -> None:
    graph.load([{"type": "Person", "data": {"name": f"p{each}", "age": each}} for each in range(3)])
    graph.branches.create("side")
    graph.mutate(DROP, {"n": "p0"})
    graph.mutate(DROP, {"n": "p1"}, branch="side")
    graph.mutate(SET, {"n": "p0", "a": 50}, branch="side")
    graph.mutate(SET, {"n": "p1", "a": 51})
    assert people(graph) == {"p1": 51, "p2": 2}
    assert people(graph, "side") == {"p0": 50, "p2": 2}


def test_columns_that_changed_their_names_are_not_mixed_up(graph: og.Graph) -> None:
    """The files stay as they are; only the names they are read under are others."""
    graph.mutate('query q() { insert Person { name: "ada", age: 1, city: "Rome" } }')
    graph.mutate(SET, {"n": "ada", "a": 2})
    renamed = 'age: I32?  home: String? @rename_from("city")'
    graph.apply_schema(SCHEMA.replace("age: I32?  city: String?", renamed))
    graph.apply_schema(SCHEMA.replace("age: I32?  city: String?", "age: I32?  home: String?  city: String?"))
    graph.mutate(SET, {"n": "ada", "a": 3})
    found = graph.query("query q() { match { $p: Person } return { $p.age, $p.home, $p.city } }").to_pylist()
    assert found == [{"p.age": 3, "p.home": "Rome", "p.city": None}]


def test_every_type_is_remembered_as_it_is_stored(tmp_path: Path) -> None:
    kinds: dict[str, tuple[str, list[Any]]] = {
        "s": ("String", ["", "é"]),
        "b": ("Bool", [True, None]),
        "i": ("I32", [-1, None]),
        "u": ("U64", [2**63 - 1, 0]),
        "f": ("F32", [0.1, -0.0]),
        "d": ("F64", [0.1, None]),
        "on": ("Date", [dt.date(1969, 12, 31), None]),
        "at": ("DateTime", [dt.datetime(2024, 2, 29, 12, 30, 1, 500_000, dt.UTC), None]),
        "tags": ("[String]", [["a", "b"], []]),
        "v": ("Vector(2)", [[0.5, -1.0], None]),
        "mood": ("enum(sad, glad)", ["sad", None]),
    }
    fields = "\n".join(f"{name}: {kind}?" for name, (kind, _) in kinds.items())
    graph = og.init(tmp_path / "types.omni", schema=f"node T {{ key: String @key\n{fields} }}")
    given = ", ".join(
        f"${name}: {kind if not kind.startswith('enum') else 'String'}?" for name, (kind, _) in kinds.items()
    )
    values = ", ".join(f"{name}: ${name}" for name in kinds)
    for row in range(2):
        params = {name: each[row] for name, (_, each) in kinds.items()}
        graph.mutate(f'query q({given}) {{ insert T {{ key: "k{row}", {values} }} }}', params)
    tables, table = _opened(graph, "node:T")
    columns, where = table.schema.names, Or((equal("key", "k0"), equal("key", "k1")))
    with counting() as counts:
        remembered = read_matching(tables, table, columns, where)
    assert counts.table_scans == 0
    assert remembered.sort_by("key").to_pydict() == table.read(columns, where).sort_by("key").to_pydict()
    assert remembered.schema == table.read(columns, where).schema


def test_places_from_memory_are_those_that_lance_tells(graph: og.Graph) -> None:
    graph.load([{"type": "Person", "data": {"name": f"p{each}", "age": each}} for each in range(5)])
    for each in range(3):
        graph.mutate(SET, {"n": f"p{each}", "a": 10 * each})
    tables, table = _opened(graph, "node:Person")
    columns, where = ["id", "age", "_rowid", "_rowaddr"], Not(IsNull("id"))
    known, told = (
        rows.sort_by("id") for rows in (read_matching(tables, table, columns, where), table.read(columns, where))
    )
    assert known.equals(told)


def test_a_filter_names_the_columns_that_it_tests() -> None:
    assert columns_of(And((equal("a", 1), Not(Or((IsNull("b"), equal("a", 2))))))) == {"a", "b"}
    assert columns_of(And(())) == set()


# -- how much is remembered --------------------------------------------------------------------------------------------


def test_memory_has_a_bound_and_the_oldest_goes_first(graph: og.Graph) -> None:
    for each in range(4):
        graph.mutate(ADD, {"n": f"p{each}", "a": each})
    _, table = _opened(graph, "node:Person")
    fragments = [each.metadata for each in table.handle.get_fragments()]
    memory = FragmentCache(ByteCache(3_000))
    for fragment in fragments:
        memory.add(table, fragment, _known(1_000))
    assert [memory.of(table, each, ["age"]) is not None for each in fragments] == [False, False, True, True]
    memory.add(table, fragments[3], _known(FRAGMENT_BYTES + 1))
    assert memory.of(table, fragments[3], ["age"]) is None
    assert memory.of(table, fragments[2], ["age", "city"]) is None


def _known(size: int) -> CachedRows:
    return CachedRows(None, np.zeros(1, np.uint32), {"age": pa.array(np.zeros(size, np.int8))})


def _opened(graph: og.Graph, table_key: str) -> tuple[TableStore, Table]:
    """A type's table, and the store that the graph remembers by."""
    tables = graph._manifest.stores.tables
    entry = graph.snapshot()[table_key]
    return tables, tables.open(Pin(entry.path, entry.version, entry.branch))
