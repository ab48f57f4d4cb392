"""The permissive grammar on Spark: the same rows, ids and errors as in one process, however the input is cut."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.errors import InvalidInput
from spark.loading import make_graph, outcome_of, small_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark.loading import Outcome

pytestmark = pytest.mark.spark

SCHEMA = """
node Day { on: Date @key  note: String? }
node Place { country: String  city: String  size: I32?  @key(country, city)  @range(size, 0..9) }
node Tag { label: String }
edge At: Day -> Place { stars: I32?  @key(src, dst) }
edge Next: Day -> Day { id_note: String? }
"""
# How a day and a place may be named: as the key makes it, as old releases did, and as nothing does.
DAYS = ["2020-01-01", "18262", "2020-01-02", "18263", "2020-01-03"]
PLACES = ['["no","oslo"]', "oslo", "no", '["se","lund"]', "lund", "paris"]


def records(*extra: dict[str, Any]) -> list[dict[str, Any]]:
    """Two days and two places under old ids, and edges that use all their names."""
    return [
        {"edge": "At", "from": "18262", "to": "oslo", "data": {"stars": 3, "unheard": 1}},
        {"edge": "Next", "from": "18262", "to": "18263"},
        {"type": "Day", "data": {"id": "18262", "on": "2020-01-01", "note": 7}, "odd": True},
        {"type": "Day", "data": {"id": "18263", "on": "2020-01-02", "note": "x"}},
        {"type": "Place", "data": {"id": "oslo", "country": "no", "city": "oslo", "size": "big"}},
        {"type": "Place", "data": {"id": "lund", "country": "se", "city": "lund"}},
        {"edge": "At", "from": "18263", "to": "lund"},
        {"edge": "Next", "from": "18263", "to": "18262"},
        *extra,
    ]


def pretty(rows: list[dict[str, Any]]) -> str:
    return "\n".join(json.dumps(each, indent=1) for each in rows)


def a_line_each(rows: list[dict[str, Any]]) -> str:
    return "".join(f"{json.dumps(each)}\n" for each in rows)


def both(source: Any, spark: SparkSession, mode: str = "merge", suffix: str = "jsonl") -> tuple[Outcome, Outcome]:
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        if isinstance(source, bytes):
            (place / f"d.{suffix}").write_bytes(source)
            source = str(place / f"d.{suffix}")
        graphs = [make_graph(place / name, SCHEMA) for name in ("local", "spark")]
        engines = zip(graphs, ("local", "spark"), strict=True)
        local, distributed = (outcome_of(graph, source, mode, engine, spark, strict=False) for graph, engine in engines)
        return local, distributed


def test_edges_follow_nodes_with_old_ids_whichever_task_reads_them(spark: SparkSession) -> None:
    with small_tasks(spark, split_bytes=100, rows_per_file=2):
        local, distributed = both(a_line_each(records()).encode(), spark)
    assert distributed == local
    assert local.error is None
    assert {(row["src"], row["dst"]) for row in local.rows["edge:At"]} == {
        (day["id"], place["id"]) for day, place in zip(local.rows["node:Day"], sorted_places(local), strict=True)
    }


def sorted_places(outcome: Outcome) -> list[dict[str, Any]]:
    return sorted(outcome.rows["node:Place"], key=lambda row: row["country"])


@pytest.mark.slow
def test_values_that_span_lines_and_share_them_are_read(spark: SparkSession) -> None:
    with small_tasks(spark, split_bytes=60, rows_per_file=2):
        for source in (pretty(records()).encode(), "".join(map(json.dumps, records())).encode()):
            local, distributed = both(source, spark)
            assert distributed == local
            assert local.error is None
        zipped = gzip.compress(pretty(records()).encode())
        local, distributed = both(zipped, spark, suffix="jsonl.gz")
        assert distributed == local
        assert local.error is None


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param([{"type": "Day", "data": {"id": "99", "on": "2020-01-03"}}], id="no spelling of the key"),
        pytest.param([{"type": "Place", "data": {"id": "oslo", "country": "dk", "city": "oslo"}}], id="two nodes"),
        pytest.param([{"type": "Day", "data": {"on": "2020-01-01"}}], id="an id twice"),
        pytest.param([{"edge": "At", "from": "18262", "to": "paris"}], id="an end that is not there"),
        pytest.param([{"type": "Place", "data": {"country": "x"}}], id="a missing key"),
        pytest.param([{"kind": "Day"}], id="no record"),
    ],
)
@pytest.mark.slow
def test_errors_are_those_of_one_process(spark: SparkSession, wrong: list[dict[str, Any]]) -> None:
    with small_tasks(spark, split_bytes=100, rows_per_file=2):
        local, distributed = both(a_line_each(records(*wrong)).encode(), spark)
    assert local.error is not None
    assert distributed.error == local.error
    assert distributed == local


def test_an_old_id_that_another_node_has_is_refused(spark: SparkSession) -> None:
    schema = "node Person { id_text: String  name: String  @key(name, id_text) }"
    rows = [
        {"type": "Person", "data": {"id": '["c","b"]', "name": '["c","b"]', "id_text": "x"}},
        {"type": "Person", "data": {"name": "b", "id_text": "c"}},
    ]
    with tempfile.TemporaryDirectory() as directory, small_tasks(spark, split_bytes=50, rows_per_file=1):
        place = Path(directory)
        (place / "d.jsonl").write_text(a_line_each(rows))
        graphs = [make_graph(place / name, schema) for name in ("local", "spark")]
        engines = zip(graphs, ("local", "spark"), strict=True)
        file = str(place / "d.jsonl")
        local, distributed = (outcome_of(each, file, "merge", engine, spark, strict=False) for each, engine in engines)
    assert local.error is not None
    assert "also an old spelling of another one's" in local.error[1]
    assert distributed == local


def test_rows_cannot_be_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    graph = make_graph(tmp_path / "g", SCHEMA)
    with pytest.raises(InvalidInput, match="set aside by the strict grammar only"):
        graph.load(a_line_each(records()), strict=False, spark=spark, on_error=og.quarantine(5))


_DAY = st.builds(
    lambda at, given: {"type": "Day", "data": {"on": at, **({"id": given} if given else {})}},
    st.sampled_from(["2020-01-01", "2020-01-02"]),
    st.sampled_from([None, None, "2020-01-01", "18262", "18263"]),
)
_PLACE = st.builds(
    lambda at, size, given: {
        "type": "Place",
        "data": {"country": at[0], "city": at[1], "size": size, **({"id": given} if given else {})},
    },
    st.sampled_from([("no", "oslo"), ("se", "lund"), ("no", "lund")]),
    st.sampled_from([1, None, "x", 40]),
    st.sampled_from([None, None, "oslo", "lund", '["no","oslo"]']),
)
_AT = st.builds(
    lambda a, b, stars: {"edge": "At", "from": a, "to": b, "data": {"stars": stars}, "more": 1},
    st.sampled_from(DAYS),
    st.sampled_from(PLACES),
    st.sampled_from([1, None, "many", 7]),
)
_INPUTS = st.lists(st.one_of(_DAY, _PLACE, _AT), max_size=10)


@pytest.mark.slow
@pytest.mark.timeout(1_500)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=_INPUTS, mode=st.sampled_from(["append", "merge", "overwrite"]), is_pretty=st.booleans())
def test_the_engines_agree_on_permissive_inputs(
    spark: SparkSession, rows: list[dict[str, Any]], mode: str, is_pretty: bool
) -> None:
    """As one task, because which of several wrong ids is told first follows from what is read at once."""
    local, distributed = both((pretty(rows) if is_pretty else a_line_each(rows)).encode(), spark, mode)
    assert distributed.error == local.error
    assert distributed == local


@pytest.mark.slow
@pytest.mark.timeout(1_500)
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=_INPUTS, mode=st.sampled_from(["append", "merge", "overwrite"]))
def test_the_engines_agree_on_permissive_inputs_in_many_tasks(
    spark: SparkSession, rows: list[dict[str, Any]], mode: str
) -> None:
    with small_tasks(spark, split_bytes=120, rows_per_file=2):
        local, distributed = both(a_line_each(rows).encode(), spark, mode)
    if local.error is None:
        assert distributed == local
    else:
        assert distributed.error is not None
        assert distributed.rows == local.rows
