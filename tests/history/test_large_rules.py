"""The rules as SQL over narrow columns: the same violations, in the same words, as the check in memory finds."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.catalog.arrow import put_schema
from omnigraph.history.merge.conflicts import of_violation
from omnigraph.history.merge.partitioned.constraints import Changed, RuleCheck
from omnigraph.history.merge.partitioned.relations import KeyColumnTables
from omnigraph.history.merge.partitioned.row_rewrite import SpilledChange
from omnigraph.history.merge.partitioned.task import has_foreign_ids
from omnigraph.history.merge.reconcile import table_keys
from omnigraph.kernels.arrays import ID
from omnigraph.transaction.constraints.validate import violations
from omnigraph.transaction.read_view import ReadView
from omnigraph.transaction.write_set import TableChanges

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = """
node Person {
    name: String @key
    age: I32?
    weight: F64? @unique
    born: DateTime? @unique
    tags: [String]?
    @unique(age, tags)
}
edge Owns: Person -> Person @card(1..2) { @key(src, dst) }
edge Likes: Person -> Person { @key(src, dst) }
"""
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
NAN = float("nan")


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    made = og.init(tmp_path / "graph", schema=SCHEMA)
    people = [
        {"name": "Ada", "age": 1, "weight": 0.0, "born": NOON, "tags": ["x"]},
        {"name": "Bo", "age": 2},
        {"name": "Cy", "age": 3, "weight": 3.0, "tags": ["y"]},
    ]
    owns = [{"from": "Ada", "to": "Bo"}, {"from": "Bo", "to": "Ada"}, {"from": "Bo", "to": "Cy"}]
    made.load({"Person": people, "Owns": owns, "Likes": [{"from": "Cy", "to": "Cy"}]}, mode="append", engine="local")
    return made


def person(name: str, *, row_id: str | None = None, **values: Any) -> dict[str, Any]:
    return {ID: row_id or name, "name": name, **values}


def edge(src: str, dst: str) -> dict[str, Any]:
    return {ID: f'["{dst}","{src}"]', "src": src, "dst": dst}


CASES: dict[str, dict[str, tuple[list[dict[str, Any]], list[str]]]] = {
    "nothing wrong": {"node:Person": ([person("Dan", weight=4.0)], [])},
    "rows that exchange their values": {
        "node:Person": ([person("Ada", weight=3.0), person("Cy", weight=0.0)], []),
    },
    "a value that a removed row had": {
        "node:Person": ([person("Dan", weight=3.0)], ["Cy"]),
        "edge:Owns": ([], ['["Cy","Bo"]']),
        "edge:Likes": ([], ['["Cy","Cy"]']),
    },
    "minus zero is zero, and NaN is NaN": {
        "node:Person": ([person("Dan", weight=-0.0), person("Eve", weight=NAN), person("Flo", weight=NAN)], []),
    },
    "a moment, and a pair with a list": {
        "node:Person": ([person("Dan", born=NOON), person("Eve", age=1, tags=["x"]), person("Flo", age=1)], []),
    },
    "two that are put alike": {"node:Person": ([person("Eve", weight=9.0), person("Dan", weight=9.0)], [])},
    "a key that another row has, under an id of another making": {
        "node:Person": ([person("Ada", row_id="old"), person("Zoe"), person("Zoe", row_id="older")], []),
    },
    "edges at nodes that are not there": {
        "edge:Likes": ([edge("Ada", "nobody"), edge("nobody", "Ada"), edge("Cy", "Ada")], []),
    },
    "nodes that go and leave edges behind": {"node:Person": ([], ["Cy"])},
    "an edge at a node that goes": {"node:Person": ([], ["Ada"]), "edge:Likes": ([edge("Bo", "Ada")], [])},
    "too many edges, and too few": {"edge:Owns": ([edge("Bo", "Bo")], ['["Bo","Ada"]'])},
    "edges of a source that goes are not counted": {
        "node:Person": ([], ["Ada"]),
        "edge:Owns": ([], ['["Bo","Ada"]', '["Ada","Bo"]']),
    },
}


@pytest.mark.parametrize("name", CASES)
def test_both_checks_find_the_same(graph: og.Graph, tmp_path: Path, name: str) -> None:
    view = ReadView(graph.snapshot(), graph._manifest.stores.tables)
    types = table_keys(view)
    spilled, changed, changes = {}, {}, {}
    for key, (rows, gone) in CASES[name].items():
        schema = put_schema(view.table(key).schema)
        ordered = sorted(rows, key=lambda each: str(each[ID]))
        puts = pa.Table.from_pylist(ordered, schema=schema)
        (tmp_path / key).mkdir()
        spilled[key] = SpilledChange(tmp_path / key, 4)
        spilled[key].put(puts)
        spilled[key].delete(pa.table({ID: pa.array(gone, pa.string())}))
        changed[key] = Changed(len(rows), len(gone), has_foreign_ids(graph.catalog, key, puts))
        changes[key] = TableChanges(key, puts if rows else None, frozenset(gone))
    tables = KeyColumnTables(graph.catalog, view, spilled, tmp_path, memory=64 << 20)
    found = RuleCheck(graph.catalog, changed, tables).conflicts(types)
    tables.close()
    wanted = [of_violation(each, types) for each in violations(graph.catalog, view, changes)]
    assert sorted(map(str, found.conflicts)) == sorted(map(str, wanted))
    assert found.more == 0
    right = ("nothing wrong", "rows that exchange", "a value that a removed", "edges of a source")
    assert bool(wanted) != name.startswith(right)
