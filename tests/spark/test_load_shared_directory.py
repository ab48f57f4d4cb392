"""Two ways for numbers to meet, a shared directory and Spark's shuffle: the same graph, the same errors."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from load.test_harmless_candidates import graph_of_players, hidden_rank, ranks
from omnigraph.errors import UniqueViolation
from omnigraph.spark.runner import SHARED_DIRECTORY, SparkRunner
from omnigraph.world import REAL
from spark.loading import make_graph, outcome_of, row_ids, rows_of, small_tasks
from spark.test_load_equality import _BASE, _INPUTS, same_outcome

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from spark.loading import Outcome

pytestmark = pytest.mark.spark

_INPUT = [
    *({"type": "Person", "data": {"name": f"new{i}", "email": f"new{i}"}} for i in range(12)),
    *({"edge": "Knows", "from": f"new{i}", "to": f"p{i % 6}"} for i in range(12)),
    *({"edge": "Owns", "from": f"new{i}", "to": "c1", "data": {"id": f"n{i}"}} for i in range(4)),
]
_FAULTS: dict[str, tuple[str, dict[str, Any]]] = {
    "OrphanEdge": ("merge", {"edge": "Knows", "from": "new1", "to": "nobody"}),
    "UniqueViolation": ("merge", {"type": "Person", "data": {"name": "late", "email": "a"}}),
    "CardinalityViolation": ("append", {"edge": "LivesIn", "from": "p2", "to": "c1"}),
    "KeyConflict": ("append", {"type": "City", "data": {"title": "c1"}}),
}


@contextmanager
def directory_set(spark: SparkSession, value: str) -> Iterator[None]:
    spark.conf.set(f"spark.omnigraph.{SHARED_DIRECTORY}", value)
    try:
        with small_tasks(spark, split_bytes=400, rows_per_file=5):
            yield
    finally:
        spark.conf.unset(f"spark.omnigraph.{SHARED_DIRECTORY}")


def outcome(place: Path, rows: list[Any], mode: str, spark: SparkSession, directory: str) -> Outcome:
    graph = make_graph(place)
    graph.load(_BASE, mode="append")
    with directory_set(spark, directory):
        return outcome_of(graph, rows, mode, "spark", spark)


@pytest.mark.parametrize("fault", _FAULTS)
def test_both_ways_find_the_same_fault(tmp_path: Path, spark: SparkSession, fault: str) -> None:
    mode, row = _FAULTS[fault]
    shared = tmp_path / "shared"
    shared.mkdir()

    noted = outcome(tmp_path / "noted", [*_INPUT, row], mode, spark, str(shared))

    assert noted.error is not None
    assert noted.error[0] == fault
    assert outcome(tmp_path / "shuffled", [*_INPUT, row], mode, spark, "") == noted
    assert list(shared.iterdir()) == [], "a load that failed leaves nothing behind"


def data_files(place: Path) -> set[Path]:
    return set(place.glob("*/*/data/*"))


def keeps_access_times(place: Path) -> bool:
    """Whether a read of a file can be told afterwards: not every file system notes it."""
    file = place / "probe"
    file.write_bytes(b"x")
    REAL.sleep(0.02)
    file.read_bytes()
    return was_read(file)


def was_read(file: Path) -> bool:
    times = file.stat()
    return times.st_atime_ns > times.st_mtime_ns


def test_both_ways_load_the_same_rows_and_what_was_written_is_not_read_again(
    tmp_path: Path, spark: SparkSession
) -> None:
    if not keeps_access_times(tmp_path):
        pytest.skip("this file system does not tell when a file was read")
    shared = tmp_path / "shared"
    shared.mkdir()
    loaded, read_again = {}, {}
    for name, directory in (("noted", str(shared)), ("shuffled", "")):
        graph = make_graph(tmp_path / name)
        graph.load(_BASE, mode="append")
        there = data_files(tmp_path / name)
        with directory_set(spark, directory):
            graph.load(_INPUT, mode="append", engine="spark", spark=spark)
        new = data_files(tmp_path / name) - there
        assert new
        read_again[name] = {each for each in new if was_read(each)}
        loaded[name] = rows_of(graph)
    assert loaded["noted"] == loaded["shuffled"]
    assert read_again["noted"] == set()
    assert read_again["shuffled"] != set()
    assert list(shared.iterdir()) == []


def test_a_local_session_shares_a_directory_of_its_own(spark: SparkSession) -> None:
    with SparkRunner(spark).shared_directory() as directory:
        assert directory is not None
        assert directory.startswith(spark.sparkContext.getConf().get("spark.local.dir", ""))


def test_a_merge_finds_the_rows_it_replaces_with_a_sieve_and_with_a_shuffle(
    tmp_path: Path, spark: SparkSession
) -> None:
    people = [{"name": f"p{i}", "age": 7} for i in (*range(3, 60, 2), 200)]
    kept = []
    for name, small in (("sieve", 1_000_000), ("shuffle", 1)):
        graph = make_graph(tmp_path / name)
        graph.load({"Person": [{"name": f"p{i}", "age": i} for i in range(60)]}, mode="append")
        before = row_ids(graph, "node:Person")
        with small_tasks(spark, split_bytes=400, rows_per_file=4, small_load=small):
            graph.load({"Person": people}, mode="merge", engine="spark", spark=spark)
        after = row_ids(graph, "node:Person")
        assert {each: after[each] for each in before} == before
        kept.append((after, sorted((row["name"], row["age"]) for row in _people(graph))))
    assert kept[0] == kept[1]
    assert [age for name, age in kept[0][1] if name in ("p4", "p5", "p200")] == [7, 4, 7]


def _people(graph: Any) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = (
        graph._manifest.stores.tables.open(graph.snapshot()["node:Person"].pin).read().to_pylist()
    )
    return told


@pytest.mark.slow
@pytest.mark.timeout(1_500)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=_INPUTS, mode=st.sampled_from(["append", "merge", "overwrite"]), on_empty=st.booleans())
def test_the_engines_agree_on_many_inputs_by_shuffle(
    spark: SparkSession, rows: list[dict[str, Any]], mode: str, on_empty: bool
) -> None:
    with directory_set(spark, ""):
        same_outcome(rows, mode, spark, on_empty=on_empty)


@pytest.mark.parametrize("shared", [True, False])
def test_a_duplicate_is_found_among_values_that_move(tmp_path: Path, spark: SparkSession, shared: bool) -> None:
    graph = graph_of_players(tmp_path / "g")
    rows = [*ranks(shift=1), {"name": "late", "rank": hidden_rank()}]
    spark.conf.set(f"spark.omnigraph.{SHARED_DIRECTORY}", str(tmp_path) if shared else "")
    try:
        with pytest.raises(UniqueViolation, match="'late' is held by row 'stays'"):
            graph.load({"Player": rows}, mode="merge", engine="spark", spark=spark)
        graph.load({"Player": rows[:-1]}, mode="merge", engine="spark", spark=spark)
    finally:
        spark.conf.unset(f"spark.omnigraph.{SHARED_DIRECTORY}")
