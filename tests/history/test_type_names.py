"""Every call that takes the name of a type resolves it alike: prefixed, in any letter case, unknown, ambiguous."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import omnigraph as og
from omnigraph.catalog.catalog import resolve_table_key
from omnigraph.errors import InvalidInput
from omnigraph.tasks.table_scan import resolve_scan
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCHEMA = """
node Person { name: String @key  photo: Blob? }
node Trip { name: String @key  photo: Blob? }
edge Trip: Person -> Person { photo: Blob? }
edge Knows: Person -> Person { photo: Blob? }
"""
CALLS: dict[str, Callable[[og.Graph, Path, str], Any]] = {
    "load": lambda graph, _, name: graph.load({name: []}),
    "export": lambda graph, folder, name: graph.export(folder / "out.jsonl", types=[name]),
    "changes": lambda graph, _, name: graph.changes(since="beginning", types=[name]),
    "entity": lambda graph, _, name: graph.entity(name, "a"),
    "history": lambda graph, _, name: graph.history(name, "a"),
    "scan": lambda _, folder, name: resolve_scan(str(folder / "g.omni"), name, world=REAL),
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> tuple[og.Graph, Path]:
    folder = tmp_path_factory.mktemp("names")
    graph = og.init(folder / "g.omni", schema=SCHEMA)
    graph.load({"Person": [{"name": "a"}], "node:Trip": [{"name": "a"}]})
    return graph, folder


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", ["Person", "node:Person", "node:Trip", "edge:Trip", "edge:TRIP", "Knows", "kNOWS"])
def test_a_name_that_means_one_type_is_accepted(graph: tuple[og.Graph, Path], call: str, name: str) -> None:
    CALLS[call](*graph, name)


@pytest.mark.parametrize("call", [*CALLS, "blob"])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Trip", "'Trip' names 2 types: write 'node:Trip' or 'edge:Trip'."),
        ("Persn", "the graph has no type 'Persn': did you mean 'Person'?"),
        ("edge:Person", "the graph has no type 'edge:Person': did you mean 'Person'?"),
        ("node:Knws", "the graph has no type 'node:Knws': did you mean 'Knows'?"),
        ("X", "the graph has no type 'X'; it has Knows, Trip, Person, Trip."),
    ],
)
def test_other_names_are_refused_with_the_way_out(
    graph: tuple[og.Graph, Path], call: str, name: str, message: str
) -> None:
    ask = CALLS.get(call, lambda graph, _, name: graph.blob(name, "a", "photo"))
    with pytest.raises(InvalidInput) as refused:
        ask(*graph, name)
    assert str(refused.value).startswith(message)


def test_edge_types_of_earlier_schemas_that_differ_in_case_are_told_apart() -> None:
    keys = ["edge:Knows", "edge:KNOWS", "node:A"]
    assert resolve_table_key("Knows", keys) == "edge:Knows"
    assert resolve_table_key("edge:KNOWS", keys) == "edge:KNOWS"
    with pytest.raises(InvalidInput, match="write 'edge:KNOWS' or 'edge:Knows'"):
        resolve_table_key("knows", keys)
