"""One predicate selects the same rows in a read, a mutation, the change feed of that mutation, and on Spark."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import pytest

import omnigraph as og
from expressions.same_rows import SCALARS, SCHEMA, predicates, rows

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    folder: Path = tmp_path_factory.mktemp("same_rows")
    data = folder / "rows.jsonl"
    data.write_text("\n".join(map(json.dumps, rows())))
    graph = og.init(folder / "graph.omni", schema=SCHEMA)
    graph.load(data)
    return graph


def selected(graph: og.Graph, predicate: str, **options: str) -> list[str]:
    query = f"query q() {{ match {{ $t: Thing  {predicate.format(*['$t.'] * 40)} }} return {{ $t.name as name }} }}"
    answer = graph.query(query, **options)  # type: ignore[arg-type]
    found = [row["name"] for row in (answer.collect() if options else answer.to_pylist())]
    return sorted(found)


def changed(graph: og.Graph, predicate: str, mark: int) -> list[str]:
    """The ids that an update with this predicate has changed, as the change feed tells."""
    before = graph.commits()[0].id
    graph.mutate(
        f"query q($m: I32) {{ update Thing set {{ mark: $m }} where {predicate.format(*[''] * 40)} }}", {"m": mark}
    )
    after = graph.commits()[0].id
    if after == before:
        return []
    return sorted(str(each.id) for each in graph.commit_changes(after))


@pytest.mark.parametrize("number", range(4))
def test_a_read_and_a_mutation_select_the_same_rows(graph: og.Graph, number: int) -> None:
    chosen = predicates()[number::4]
    differing = {
        predicate: (read, written)
        for mark, predicate in enumerate(chosen, 1_000 * number)
        if (read := selected(graph, predicate)) != (written := changed(graph, predicate, mark))
    }
    assert differing == {}
    assert any(selected(graph, predicate) for predicate in chosen)


@pytest.mark.spark
def test_spark_selects_the_same_rows(graph: og.Graph) -> None:
    # One frame of each costs a job; every seventh predicate has every type and operator among them.
    chosen = predicates()[::7]
    differing = {
        predicate: (here, there)
        for predicate in chosen
        if (here := selected(graph, predicate)) != (there := selected(graph, predicate, engine="spark"))
    }
    assert differing == {}


def test_a_copied_value_is_the_value(graph: og.Graph) -> None:
    """Values that an update computes from others of the row are not cut on their way."""
    copies = [each.lower() for each in SCALARS]
    graph.branches.create("copied")
    assignments = ", ".join(f"other_{name}: {name}" for name in copies)
    graph.mutate(f'query q() {{ update Thing set {{ {assignments} }} where name != "" }}', branch="copied")
    pairs = ", ".join(f"$t.{name} as a_{name}, $t.other_{name} as b_{name}" for name in copies)
    for row in graph.query(f"query q() {{ match {{ $t: Thing }} return {{ {pairs} }} }}", branch="copied").to_pylist():
        for name in copies:
            a, b = row[f"a_{name}"], row[f"b_{name}"]
            assert a == b, name
            assert not isinstance(a, float) or math.copysign(1, a) == math.copysign(1, b)
