"""Reads of a graph that was made and written through its manifest: one snapshot, whatever is committed later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import omnigraph as og
from omnigraph.cache import cache_of
from omnigraph.catalog.arrow import table_arrow_schemas
from omnigraph.counters import counting
from omnigraph.language.gq.check import check_query
from omnigraph.language.gq.syntax.parse import parse_queries
from omnigraph.language.ir.query import CheckedQuery
from omnigraph.language.schema.compile import compile_schema
from omnigraph.manifest.create import NewGraph
from omnigraph.manifest.graph_manifest import create_manifest
from omnigraph.query.run import PreparedQuery
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.tables.staging import stage_append
from omnigraph.transaction.commit.protocol import Operation, commit
from omnigraph.transaction.write_set import TableWrite, WriteSet
from omnigraph.world import REAL
from query.conftest import PEOPLE, SOCIAL, edge
from query.graphs import rows_of

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.snapshot import Snapshot

CATALOG = compile_schema(SOCIAL)
ARROW = table_arrow_schemas(CATALOG)
TEXT = "query q() { match { $a knows $b } return { $a.name, $b.name } order { $a.name, $b.name } }"


def write(graph: GraphManifest, branch: str = "main", **records: list[dict[str, object]]) -> None:
    """Append rows to several tables in one commit."""
    keys = {key.partition(":")[2]: key for key in ARROW}
    rows = {keys[name]: rows_of(ARROW[keys[name]], several) for name, several in records.items()}

    def prepare(view: object) -> WriteSet:
        snapshot = view.snapshot  # type: ignore[attr-defined]
        return WriteSet(
            [
                TableWrite(snapshot[key], lambda table, made=made: stage_append(table, made))
                for key, made in rows.items()
            ]
        )

    assert commit(graph, Operation("load", prepare, branch=branch)) is not None


def ask(graph: GraphManifest, snapshot: Snapshot) -> list[tuple[object, ...]]:
    checked = check_query(parse_queries(TEXT).queries[0], CATALOG)
    assert isinstance(checked, CheckedQuery)
    result = PreparedQuery(snapshot, graph.stores.tables, CATALOG, checked, {}, world=REAL).run()
    return [tuple(row.values()) for row in result.to_pylist()]


@pytest.fixture
def graph(graph_uri: str) -> GraphManifest:
    made = create_manifest(parse_location(graph_uri, REAL), NewGraph({}, ARROW), REAL)
    people = [{"id": each["name"], **each} for each in PEOPLE]
    write(made, Person=people, Knows=[{"id": "k1", **edge("Alice", "Bob")}])
    return made


def test_a_snapshot_is_read_as_it_was_and_the_next_as_it_is(graph: GraphManifest) -> None:
    before = graph.snapshot()
    assert ask(graph, before) == [("Alice", "Bob")]
    write(graph, Knows=[{"id": "k2", **edge("Bob", "Diana")}])
    assert ask(graph, before) == [("Alice", "Bob")]
    assert ask(graph, graph.snapshot()) == [("Alice", "Bob"), ("Bob", "Diana")]


def test_a_warm_read_probes_the_manifest_once_and_opens_nothing(graph: GraphManifest) -> None:
    ask(graph, graph.snapshot())
    with counting() as counts:
        ask(graph, graph.snapshot())
    assert (counts.table_opens, counts.table_scans, counts.table_probes) == (0, 0, 1)


def test_a_new_branch_is_read_from_what_main_has_in_memory(graph: GraphManifest) -> None:
    ask(graph, graph.snapshot())
    built = dict(cache_of(graph.stores.tables).builds)
    graph.create_branch("review")
    assert ask(graph, graph.snapshot("review")) == [("Alice", "Bob")]
    assert cache_of(graph.stores.tables).builds["endpoints"] == built["endpoints"]
    write(graph, "review", Knows=[{"id": "k3", **edge("Diana", "Alice")}])
    assert ask(graph, graph.snapshot("review")) == [("Alice", "Bob"), ("Diana", "Alice")]
    assert ask(graph, graph.snapshot()) == [("Alice", "Bob")]


def test_a_branch_that_was_deleted_and_made_anew_is_not_read_from_memory(tmp_path: Path) -> None:
    schema = "node Person { name: String @key }\nedge Knows: Person -> Person\n"
    writer = og.init(tmp_path / "g.omni", schema=schema)
    writer.load({"Person": [{"name": "Ada"}, {"name": "Bo"}]})
    reader = og.open(tmp_path / "g.omni", read_only=True)
    people = "query q() { match { $p: Person } return { $p.name } order { $p.name } }"
    friends = "query q() { match { $p knows $f } return { $p.name, $f.name } }"
    for end in ("Cy", "Di"):
        writer.branches.create("draft")
        writer.load({"Person": [{"name": end}], "Knows": [{"from": "Ada", "to": end}]}, branch="draft")
        for graph in (writer, reader):
            found = graph.query(people, branch="draft").to_pylist()
            assert [row["p.name"] for row in found] == ["Ada", "Bo", end]
            assert graph.query(friends, branch="draft").to_pylist() == [{"p.name": "Ada", "f.name": end}]
        writer.branches.delete("draft")
