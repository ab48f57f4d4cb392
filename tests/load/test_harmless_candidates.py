"""Values that move between rows are candidates of a bulk load, and hide no violation however many they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from load.task_loads import SmallTasks, load_in_tasks
from omnigraph.errors import CardinalityViolation, KeyConflict, OmniGraphError, UniqueViolation
from omnigraph.kernels.hashing import hash_rows

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = """
node Player { name: String @key  rank: I64? @unique }
node Team { name: String @key }
edge Plays: Player -> Team @card(1..1)
"""
# More than a partition reports at once, and than a file yields at once.
MANY = 24_000


def ranks(*, shift: int = 0) -> list[dict[str, Any]]:
    """Players whose ranks have all moved on by `shift`."""
    return [{"name": f"p{at}", "rank": (at + shift) % MANY} for at in range(MANY)]


def last_by_hash(values: pa.Array[Any]) -> int:
    """The position of the value whose hash a partition reports last."""
    return int(np.argmax(hash_rows([values])[0]))


def hidden_rank() -> int:
    above = pa.array(range(MANY, 2 * MANY), pa.int64())
    return MANY + last_by_hash(above)


def graph_of_players(place: Path) -> og.Graph:
    graph = og.init(place, schema=SCHEMA)
    graph.load({"Player": [*ranks(), {"name": "stays", "rank": hidden_rank()}]}, mode="append", engine="local")
    return graph


@pytest.mark.parametrize("shared", [True, False])
def test_a_duplicate_is_found_among_values_that_move(tmp_path: Path, shared: bool) -> None:
    graph = graph_of_players(tmp_path / "g")
    load_in_tasks(graph, {"Player": ranks(shift=1)}, "merge", shared=shared)
    rows = [*ranks(shift=2), {"name": "late", "rank": hidden_rank()}]
    with pytest.raises(UniqueViolation, match="'late' is held by row 'stays'"):
        load_in_tasks(graph, {"Player": rows}, "merge", shared=shared)


def moved(edges: list[dict[str, Any]], shift: int) -> list[dict[str, Any]]:
    return [{**each, "from": f"p{(at - shift) % MANY}"} for at, each in enumerate(edges)]


@pytest.mark.parametrize("shared", [True, False])
def test_a_source_that_loses_its_edge_is_found_among_those_that_exchange_theirs(tmp_path: Path, shared: bool) -> None:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    names = [f"p{at}" for at in range(MANY)]
    loser = last_by_hash(pa.array(names))
    edges = [{"id": f"e{at}", "from": name, "to": "t"} for at, name in enumerate(names)]
    nodes = {"Player": [{"name": name} for name in [*names, "new"]], "Team": [{"name": "t"}]}
    graph.load({**nodes, "Plays": edges}, mode="append", engine="local")
    load_in_tasks(graph, {"Plays": moved(edges, 1)}, "merge", shared=shared)
    after = moved(edges, 2)
    after[(loser + 2) % MANY]["from"] = "new"
    with pytest.raises(CardinalityViolation, match=f"'{names[loser]}' has 0 edges"):
        load_in_tasks(graph, {"Plays": after}, "merge", shared=shared)


def test_a_source_without_edges_is_found_among_those_that_an_overwrite_removes(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    names = [f"p{at}" for at in range(MANY)]
    stays = names[last_by_hash(pa.array(names))]
    nodes = {"Player": [{"name": name} for name in names], "Team": [{"name": "t"}]}
    graph.load({**nodes, "Plays": [{"from": name, "to": "t"} for name in names]}, mode="append", engine="local")
    after = {"Player": [{"name": "new"}, {"name": stays}], "Plays": [{"from": "new", "to": "t"}]}
    with pytest.raises(CardinalityViolation, match=f"'{stays}' has 0 edges"):
        load_in_tasks(graph, after, "overwrite")


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("mode", "error"), [("append", KeyConflict), ("overwrite", UniqueViolation)])
def test_ids_that_stand_in_opposite_orders_are_found_in_rounds(
    tmp_path: Path, mode: str, error: type[OmniGraphError], shared: bool
) -> None:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    rows = [{"name": f"p{at}"} for at in range(40)]
    if mode == "append":
        graph.load({"Player": rows}, mode="append", engine="local")
    again = rows[::-1] if mode == "append" else [*rows, *rows[::-1]]
    with pytest.raises(error):
        load_in_tasks(graph, {"Player": again}, mode, runner=SmallTasks(), shared=shared)


@pytest.mark.parametrize("shared", [True, False])
def test_every_bad_row_is_set_aside_in_rounds(tmp_path: Path, shared: bool) -> None:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    graph.load({"Player": [{"name": f"p{at}", "rank": at} for at in range(60)]}, mode="append", engine="local")
    moved = [{"name": f"p{at}", "rank": (at + 1) % 30} for at in range(30)]
    late = [{"name": f"late{at}", "rank": 40 + at % 10} for at in range(30)]
    rows = {"Player": [*moved, *late, {"name": "good", "rank": 100}, {"name": "p59", "rank": 0}]}
    load = load_in_tasks(graph, rows, "merge", runner=SmallTasks(), policy=og.quarantine(100), shared=shared)
    assert len(load.rejects) == 31
    assert graph.query("query q() { match { $p: Player } return { count($p) as n } }").to_pylist() == [{"n": 61}]
