"""Wrong arguments of the public API: each is a typed error that names the argument, and nothing is changed."""

from __future__ import annotations

import datetime as dt
import inspect
import os
import re
import timeit
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import DataFrame

import omnigraph as og
from omnigraph.arguments import _checks, checked_arguments
from omnigraph.errors import InvalidInput, NotFound, OmniGraphError
from omnigraph.types import Analytics, Branches, ReadOptions, Tags

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCHEMA = "node Person { name: String @key age: I32? }\nedge Knows: Person -> Person"
ALL = "query all() { match { $p: Person } return { $p.name } }"
PIPELINE = """
mode: merge
sources:
  people: { format: csv, path: people.csv }
nodes:
  Person: { source: people }
"""


class Other:
    """A value of a type that no argument has; its name is the same in every process."""

    def __repr__(self) -> str:
        return "Other()"


WRONG: tuple[Any, ...] = (None, 5, 1.5, True, "wrong ", b"bytes", [], [5], {}, {5: 5}, (), Other(), Path("/wrong"))
CLASSES = (og.Graph, Branches, Tags, Analytics, og.Pipeline)
# Read and written without an argument that could be wrong, or closing the graph of the test.
SKIPPED = {"close", "refresh"}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    made = og.init(tmp_path_factory.mktemp("arguments") / "graph.omni", schema=SCHEMA)
    made.load([{"type": "Person", "data": {"name": "Ada"}}])
    return made


def methods(owner: type) -> Iterator[tuple[str, Callable[..., object]]]:
    for name, member in inspect.getmembers(owner, callable):
        if not name.startswith("_") and name not in SKIPPED:
            yield name, member


GOOD: dict[str, Any] = {
    "source": ALL,
    "path": "/proc/nowhere/at/all",
    "schema": SCHEMA,
    "before": "main",
    "after": "main",
    "commit_id": "main",
    "type_name": "Person",
    "entity_id": "Ada",
    "property_name": "age",
    "name": "new name that no branch can have",
    "merged": None,
    "sources": ["Ada"],
    "properties": {},
    "text": PIPELINE,
    "run_id": "1",
    "limit": 1,
}


def called(function: Callable[..., object], name: str, value: object, good: dict[str, Any]) -> OmniGraphError | None:
    """The error of a call with one argument as given and the other required ones good; another exception is raised."""
    required = {
        each.name: good[each.name]
        for each in inspect.signature(function).parameters.values()
        if each.default is each.empty and each.name not in ("self", "cls") and each.name != name
    }
    try:
        function(**required, **{name: value})
    except OmniGraphError as error:
        return error
    return None


def parameters(function: Callable[..., object]) -> list[str]:
    return [each for each in inspect.signature(function).parameters if each not in ("self", "cls")]


@pytest.mark.parametrize("value", WRONG, ids=repr)
def test_every_method_answers_a_wrong_type_with_an_error_of_ours(graph: og.Graph, value: object) -> None:
    pipeline = og.Pipeline.from_text(PIPELINE)
    # Without Spark an analysis ends when its session is made: what is looked at here comes before.
    analytics = Analytics(graph._manifest, graph._schemas, None, None)
    good = {**GOOD, "graph": graph, "session": None, "scores": object.__new__(DataFrame)}
    for holder in (graph, graph.branches, graph.tags, analytics, pipeline):
        for name, _ in methods(type(holder)):
            bound = getattr(holder, name)
            for parameter in parameters(bound):
                if _accepts(bound, parameter, value):
                    continue
                error = called(bound, parameter, value, good)
                assert isinstance(error, InvalidInput), f"{name}({parameter}={value!r})"
                assert parameter in error.message, error.message
    assert [each.name for each in graph.branches.list()] == ["main"]
    assert graph.query(ALL).to_pylist() == [{"p.name": "Ada"}]


@pytest.mark.parametrize("value", WRONG, ids=repr)
def test_no_value_that_a_type_allows_ends_in_an_error_of_another_library(
    tmp_path: Path, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    graph = og.init(tmp_path / "graph.omni", schema=SCHEMA)
    for holder in (graph, graph.branches, graph.tags):
        for name, _ in methods(type(holder)):
            bound = getattr(holder, name)
            for parameter in parameters(bound):
                if _accepts(bound, parameter, value):
                    called(bound, parameter, value, GOOD)


@pytest.mark.parametrize("value", WRONG, ids=repr)
def test_functions_and_options_answer_a_wrong_type_with_an_error_of_ours(tmp_path: Path, value: object) -> None:
    for function in (og.open, og.init, og.quarantine, ReadOptions):
        good = {"uri": tmp_path / "nothing.omni", "schema": SCHEMA, "limit": 1}
        for parameter in parameters(function):
            if not _accepts(function, parameter, value):
                error = called(function, parameter, value, good)
                assert isinstance(error, InvalidInput), f"{function}({parameter}={value!r})"
                assert parameter in error.message, error.message


def _accepts(function: Callable[..., object], parameter: str, value: object) -> bool:
    inner = inspect.unwrap(function.__init__ if isinstance(function, type) else function)
    return _checks(inner)[parameter](value)


@pytest.mark.parametrize("value", [None, 5, 1.5, b"bytes", [5], {5: 5}, Other(), dt.date(2026, 11, 16)], ids=repr)
def test_states_and_load_sources_of_a_wrong_type_are_refused(graph: og.Graph, value: object) -> None:
    """These accept many types, which are told apart where they are resolved."""
    calls: list[Callable[[Any], object]] = [
        lambda it: graph.load(it),
        lambda it: graph.load({"Person": it}),
        lambda it: graph.diff(it, "main"),
        lambda it: graph.diff("main", it),
        lambda it: graph.branches.create("b", from_=it),
        lambda it: graph.load([], on_error=it),
        lambda it: graph.catalog_of(it),
    ]
    if value is not None:
        calls += [
            lambda it: graph.query(ALL, at=it),
            lambda it: graph.snapshot(at=it),
            lambda it: graph.tags.create("t", it),
        ]
    for call in calls:
        with pytest.raises(OmniGraphError):
            call(value)


@pytest.mark.parametrize(
    "call",
    [
        lambda g: g.load([], mode="Append"),
        lambda g: g.load([], mode="upsert"),
        lambda g: g.load([], engine="Spark"),
        lambda g: g.load([], on_error="skip"),
        lambda g: g.query(ALL, engine="auto"),
        lambda g: g.export("/tmp/x", format="Parquet"),
        lambda g: g.export("/tmp/x", engine="auto"),
        lambda g: g.changes(ops=["inserted"]),
        lambda g: g.changes(kinds=["nodes"]),
        lambda g: g.changes(types=["Persn"]),
        lambda g: g.commit_changes("main", ops=["inserted"]),
        lambda g: g.merge("main", resolve="mine"),
        lambda g: g.merge("main", resolve={"*": "mine"}),
        lambda g: g.merge("main", engine="Local"),
        lambda g: g.revert("main", resolve="mine"),
        lambda g: g.optimize(engine="local "),
        lambda g: g.ensure_indices(engine="dask"),
        lambda g: g.cleanup(older_than="7 days"),
        lambda g: g.cleanup(grace="ten minutes"),
        lambda g: g.snapshot(at="2026-13-45"),
        lambda _: ReadOptions(traversal="fast"),
        lambda g: og.open(g.uri, actor=5),
        lambda g: og.init(g.uri + "2", schema=Path("/nowhere.pg")),
        lambda g: g.query(Path("/nowhere.gq")),
        lambda g: g.apply_schema(Path("/nowhere.pg")),
    ],
    ids=lambda each: inspect.getsource(each).strip()[:70] if callable(each) else str(each),
)
def test_values_that_there_are_not_are_refused(graph: og.Graph, call: Callable[[og.Graph], object]) -> None:
    with pytest.raises(InvalidInput):
        call(graph)


def test_a_query_and_a_mutation_are_read_from_a_path(graph: og.Graph, tmp_path: Path) -> None:
    file = tmp_path / "all.gq"
    file.write_text(ALL)
    assert graph.query(file).to_pylist() == graph.query(ALL).to_pylist()
    file.write_text('query same() { update Person set { age: 1 } where name = "Bo" }')
    assert graph.mutate(file).affected_nodes == 0


def test_a_date_and_a_datetime_in_a_text_are_moments(graph: og.Graph) -> None:
    tomorrow = graph.commits()[0].created_at + dt.timedelta(days=1)
    newest = graph.snapshot().commit_id
    for text in (f"{tomorrow:%Y-%m-%d}", f"{tomorrow:%Y-%m-%dT%H:%M}", f"{tomorrow:%Y-%m-%d %H:%M}Z"):
        assert graph.snapshot(at=text).commit_id == newest
    with pytest.raises(NotFound, match="no commit until 2001-01-01"):
        graph.snapshot(at="2001-01-01")
    graph.tags.create("2001-01-01")
    assert graph.snapshot(at="2001-01-01").commit_id == newest
    graph.tags.delete("2001-01-01")


def test_cleanup_reads_the_durations_of_the_command(graph: og.Graph) -> None:
    report = graph.cleanup(keep=None, older_than="7d", grace="10m", dry_run=True)
    assert report.older_than == dt.timedelta(days=7)


def test_an_export_to_where_nothing_can_be_written_is_refused(graph: og.Graph, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be written as a file: Is a directory"):
        graph.export(tmp_path)
    with pytest.raises(InvalidInput, match="No such file or directory"):
        graph.export(tmp_path / "nowhere" / "all.jsonl")
    (tmp_path / "taken").write_text("")
    for form in ("csv", "parquet"):
        with pytest.raises(InvalidInput, match="cannot be written as a directory"):
            graph.export(tmp_path / "taken", format=form)
    if os.geteuid():
        (tmp_path / "locked").mkdir(mode=0o500)
        with pytest.raises(InvalidInput, match="Permission denied"):
            graph.export(tmp_path / "locked" / "all.jsonl")


@pytest.mark.parametrize("large", [False, True])
def test_resolutions_that_name_no_conflict_are_refused(
    tmp_path: Path, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from omnigraph.graph import backends
    from omnigraph.history.merge.partitioned.hash_partitions import MergeBudget

    if large:
        monkeypatch.setattr(backends, "BUDGET", MergeBudget(bytes=0))
    graph = og.init(tmp_path / "graph.omni", schema=SCHEMA)
    graph.load([{"type": "Person", "data": {"name": name, "age": 1}} for name in ("Ada", "Bo")])
    graph.branches.create("side")
    for branch, age in (("main", 2), ("side", 3)):
        graph.load([{"type": "Person", "data": {"name": n, "age": age}} for n in ("Ada", "Bo")], branch=branch)
    with pytest.raises(InvalidInput, match=r"'node:Person/Add'.*did you mean 'node:Person/Ada'"):
        graph.merge("side", resolve={"node:Person/Add": "theirs"}, engine="local")
    with pytest.raises(InvalidInput, match="resolve names 'node:Person/Add'"):
        graph.merge("side", resolve={"node:Person/Add": "theirs", "*": "ours"}, engine="local", dry_run=True)
    graph.merge("side", resolve={"node:Person/Ada": "theirs", "*": "ours"}, engine="local")
    ages = "query all() { match { $p: Person } return { $p.name, $p.age } order { $p.name } }"
    assert [tuple(each.values()) for each in graph.query(ages).to_pylist()] == [("Ada", 3), ("Bo", 2)]


def test_every_annotation_of_the_api_is_understood() -> None:
    """A class that the checks know by its name is one of the public API, or of Spark."""
    known = {*og.types.__all__, *og.__all__, "SparkSession", "DataFrame", "Literal", "Mapping", "Sequence", "Callable"}
    known |= {"str", "int", "float", "bool", "object", "None", "Path", "os.PathLike", "dt.timedelta"}
    for owner in CLASSES:
        for _, function in methods(owner):
            for each in inspect.signature(function).parameters.values():
                if isinstance(each.annotation, str):
                    words = set(re.split(r"[\[\]|, ]+", each.annotation)) - {""}
                    assert {word for word in words if word[0] not in "\"'"} <= known, each


def test_the_checks_of_a_call_take_microseconds() -> None:
    def query(source: str, params: object = None, *, branch: str = "main", name: str | None = None) -> None: ...

    checked = checked_arguments(query)

    def seconds(function: Callable[..., None]) -> float:
        return min(timeit.repeat(lambda: function(ALL, {"a": 1}, branch="b", name="n"), number=2_000, repeat=7)) / 2_000

    assert seconds(checked) - seconds(query) < 20e-6
