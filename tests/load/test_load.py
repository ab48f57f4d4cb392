"""A load as a whole: modes, what it touches, what it says, and that a bad one changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from load.loading import SOCIAL, load
from omnigraph.errors import InvalidRecord, KeyConflict, OrphanEdge, UniqueViolation
from omnigraph.load.operation import prepare_load, read_load
from omnigraph.load.plan import plan_load
from seeded_world import SeededWorld
from transaction.small_graph import SmallGraph

if TYPE_CHECKING:
    from pathlib import Path

SEED = """
{"type":"Person","data":{"name":"Ada","age":36}}
{"type":"Person","data":{"name":"Bob"}}
{"edge":"Knows","from":"Ada","to":"Bob","data":{"id":"e1"}}
{"type":"Note","data":{"id":"n1","text":"hi"}}
"""


@pytest.fixture
def graph(tmp_path: Path) -> SmallGraph:
    made = SmallGraph(tmp_path / "graph.omni", SOCIAL)
    load(made, SEED)
    return made


def ages(graph: SmallGraph) -> dict[str, int | None]:
    return {row_id: row["age"] for row_id, row in graph.content("node:Person").items()}


def test_append_adds_rows_and_refuses_an_id_that_is_there(graph: SmallGraph) -> None:
    load(graph, '{"type":"Person","data":{"name":"Cid"}}')
    assert sorted(ages(graph)) == ["Ada", "Bob", "Cid"]
    with pytest.raises(KeyConflict, match="Person 'Ada' is there already"):
        load(graph, '{"type":"Person","data":{"name":"Dan"}}\n{"type":"Person","data":{"name":"Ada"}}')
    assert sorted(ages(graph)) == ["Ada", "Bob", "Cid"]


def test_merge_replaces_whole_rows(graph: SmallGraph) -> None:
    load(graph, '{"type":"Person","data":{"name":"Ada"}}\n{"type":"Person","data":{"name":"Cid","age":1}}', "merge")
    assert ages(graph) == {"Ada": None, "Bob": None, "Cid": 1}


def test_overwrite_replaces_the_types_it_touches_and_no_other(graph: SmallGraph) -> None:
    load(graph, {"Note": pa.table({"id": ["n2"], "text": ["new"]}), "Knows": []}, "overwrite")
    assert list(graph.content("node:Note")) == ["n2"]
    assert graph.content("edge:Knows") == {}
    assert sorted(ages(graph)) == ["Ada", "Bob"]


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_key_twice_in_one_input_is_refused_in_every_mode(graph: SmallGraph, mode: str) -> None:
    twice = '{"type":"Person","data":{"name":"X"}}\n' * 2
    with pytest.raises(UniqueViolation, match=r"line 2: @unique violation on Person\.name"):
        load(graph, twice, mode)  # type: ignore[arg-type]
    with pytest.raises(InvalidRecord, match="line 2: the id 'e9' of this Knows occurs twice"):
        load(graph, '{"edge":"Knows","from":"Ada","to":"Bob","data":{"id":"e9"}}\n' * 2, mode)  # type: ignore[arg-type]


def test_a_bad_last_line_changes_nothing(graph: SmallGraph) -> None:
    before = graph.manifest.snapshot()
    with pytest.raises(InvalidRecord, match="line 2: not JSON"):
        load(graph, '{"type":"Person","data":{"name":"Cid"}}\n{"type":', "merge")
    with pytest.raises(OrphanEdge):
        load(graph, '{"type":"Person","data":{"name":"Cid"}}\n{"edge":"Knows","from":"Cid","to":"Nobody"}')
    assert graph.manifest.snapshot() == before


def test_the_summary_counts_rows_by_type(graph: SmallGraph, tmp_path: Path) -> None:
    path = tmp_path / "more.jsonl"
    path.write_text(SEED.replace("Ada", "Cid").replace("Bob", "Dan").replace("e1", "e2").replace("n1", "n2"))
    summary = load(graph, path)
    assert summary.nodes == {"Note": 1, "Person": 2}
    assert summary.edges == {"Knows": 1}
    assert summary.rows == 4
    assert summary.bytes == path.stat().st_size
    assert summary.engine == "local"
    assert summary.seconds >= 0


def test_changes_carry_the_mode_and_every_column(graph: SmallGraph) -> None:
    world = SeededWorld()
    plan = plan_load('{"type":"Person","data":{"name":"Eve"}}', graph.catalog, world)
    view = graph.view()
    changes, _ = prepare_load(graph.catalog, view, plan, "append", world)
    (change,) = changes.values()
    assert (change.table_key, change.only_new, change.overwrite) == ("node:Person", True, False)
    assert change.puts is not None
    assert change.puts.schema.equals(graph.schemas["node:Person"])
    assert list(view.reads) == ["node:Person"]
    merged, _ = prepare_load(graph.catalog, graph.view(), plan, "merge", world)
    assert not merged["node:Person"].only_new


def test_an_empty_input_changes_nothing(graph: SmallGraph) -> None:
    changes, summary = prepare_load(graph.catalog, graph.view(), b"\n", "overwrite", SeededWorld())
    assert changes == {}
    assert summary.rows == 0


def test_loads_are_replayable(graph: SmallGraph) -> None:
    once, again = (
        prepare_load(graph.catalog, graph.view(), '{"type":"Note"}', "append", SeededWorld())[0] for _ in "ab"
    )
    first, second = once["node:Note"].puts, again["node:Note"].puts
    assert first is not None
    assert second is not None
    assert first.equals(second)


def test_rows_that_were_read_once_can_be_prepared_again_with_the_same_ids(graph: SmallGraph) -> None:
    world = SeededWorld()
    loaded = read_load(graph.catalog, iter([{"type": "Note"}, {"type": "Note"}]), world)
    once, again = (prepare_load(graph.catalog, graph.view(), loaded, "append", world)[0]["node:Note"] for _ in "ab")
    assert once.puts is not None
    assert once.puts.num_rows == 2
    assert again.puts is once.puts


def test_permissive_loads_accept_what_strict_ones_refuse(graph: SmallGraph) -> None:
    text = '{"type":"Person","unknown":1,"data":{"name":"Zoe","age":"old"}}'
    with pytest.raises(InvalidRecord):
        load(graph, text)
    load(graph, text, strict=False)
    assert ages(graph)["Zoe"] is None
    load(graph, [{"type": "Person", "x": 1, "data": {"name": "Yan", "age": "old"}}], strict=False)
    assert ages(graph)["Yan"] is None
