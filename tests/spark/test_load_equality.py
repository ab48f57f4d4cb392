"""Both engines, the same input: the same rows, ids and errors."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark.loading import make_graph, outcome_of, small_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_NAMES = st.sampled_from([f"p{i}" for i in range(8)])
_CITIES = st.sampled_from([f"c{i}" for i in range(4)])
_PEOPLE = st.fixed_dictionaries(
    {"name": _NAMES},
    optional={"age": st.sampled_from([1, 2, 3, None, 200]), "email": st.sampled_from(["a", "b", "c", "d", None])},
)
_NODES = st.one_of(
    st.builds(lambda data: {"type": "Person", "data": data}, _PEOPLE),
    st.builds(lambda title: {"type": "City", "data": {"title": title}}, _CITIES),
    st.builds(
        lambda text: {"type": "Note", "data": {"text": text}}, st.sampled_from(["fine", "also fine", "fine", "Bad"])
    ),
)


def _edge(name: str, to: st.SearchStrategy[str], data: dict[str, st.SearchStrategy[Any]]) -> Any:
    return st.builds(
        lambda a, b, data: {"edge": name, "from": a, "to": b, "data": data}, _NAMES, to, st.fixed_dictionaries(data)
    )


_EDGES = st.one_of(
    _edge("Knows", _NAMES, {}),
    _edge("LivesIn", _CITIES, {}),
    _edge("Owns", _CITIES, {"id": st.sampled_from(["o1", "o2", "o3", "o4"])}),
    _edge("Likes", _CITIES, {"stars": st.integers(1, 5)}),
)


def _without_repeats(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mostly whole inputs: a row whose key stood before is left out."""
    kept: dict[str, dict[str, Any]] = {}
    for row in rows:
        data = row["data"]
        key = data.get("name") or data.get("title") or data.get("id")
        key = key or (f"{row['from']}|{row['to']}" if row.get("edge") == "Likes" else None)
        kept.setdefault(f"{row.get('type')}{row.get('edge')}{key or len(kept)}", row)
    return list(kept.values())


_INPUTS = st.one_of(
    st.lists(st.one_of(_NODES, _EDGES), max_size=25).map(_without_repeats),
    st.lists(st.one_of(_NODES, _EDGES), max_size=12),
)
_BASE = [
    *({"type": "Person", "data": {"name": f"p{i}", "email": "abcd"[i] if i < 4 else None}} for i in range(6)),
    *({"type": "City", "data": {"title": f"c{i}"}} for i in range(4)),
    {"edge": "Owns", "from": "p0", "to": "c0", "data": {"id": "o1"}},
    {"edge": "Owns", "from": "p0", "to": "c1", "data": {"id": "o2"}},
    {"edge": "Owns", "from": "p1", "to": "c1", "data": {"id": "o3"}},
    {"edge": "Likes", "from": "p1", "to": "c1", "data": {"stars": 2}},
    {"edge": "LivesIn", "from": "p2", "to": "c1"},
]


def same_outcome(rows: list[dict[str, Any]], mode: str, spark: SparkSession, *, on_empty: bool) -> None:
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        file = place / "d.jsonl"
        file.write_text("".join(f"{json.dumps(each)}\n" for each in rows))
        graphs = [make_graph(place / name) for name in ("local", "spark")]
        for graph in graphs:
            if not on_empty:
                graph.load(_BASE, mode="append")
        local, distributed = (
            outcome_of(graph, str(file), mode, engine, spark)
            for graph, engine in zip(graphs, ("local", "spark"), strict=True)
        )
        assert distributed.error == local.error
        assert distributed == local


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(rows=_INPUTS, mode=st.sampled_from(["append", "merge", "overwrite"]), on_empty=st.booleans())
def test_the_engines_agree(spark: SparkSession, rows: list[dict[str, Any]], mode: str, on_empty: bool) -> None:
    same_outcome(rows, mode, spark, on_empty=on_empty)


@pytest.mark.slow
@pytest.mark.timeout(1_500)
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=_INPUTS, mode=st.sampled_from(["append", "merge", "overwrite"]), on_empty=st.booleans())
def test_the_engines_agree_on_many_inputs(
    spark: SparkSession, rows: list[dict[str, Any]], mode: str, on_empty: bool
) -> None:
    with small_tasks(spark, split_bytes=150, rows_per_file=3):
        same_outcome(rows, mode, spark, on_empty=on_empty)
