"""Rankings in a table that is too large to rank as a whole: the best are found, whatever else the pattern asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from omnigraph.query.columns.table_columns import SMALL_TABLE
from omnigraph.query.run import PreparedQuery
from omnigraph.world import REAL
from query.graphs import make_graph

if TYPE_CHECKING:
    from query.graphs import Graph

SCHEMA = """
node Doc { slug: String @key
  text: String @index
  group: I32
  embedding: Vector(2)? @index }
node Tag { name: String @key }
edge Has: Doc -> Tag
"""
COUNT = SMALL_TABLE + 1_000
WORDS = ["apple", "pear", "plum", "fig", "grape"]


@pytest.fixture(scope="module")
def vectors() -> np.ndarray[Any, Any]:
    return np.random.default_rng(3).random((COUNT, 2)).astype(np.float32)


@pytest.fixture(scope="module", params=["no index", "index"])
def graph(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, vectors: Any) -> Graph:
    docs = [
        {
            "slug": f"d{n:05d}",
            "text": " ".join(WORDS[: 1 + n % 5] + ["apple"] * (n % 7)),
            "group": n % 10,
            "embedding": None if n % 1_000 == 7 else vectors[n].tolist(),
        }
        for n in range(COUNT)
    ]
    has = [{"src": f"d{n:05d}", "dst": "rare"} for n in range(0, COUNT, 997)]
    records = {"Doc": docs, "Tag": [{"name": "rare"}], "Has": has}
    made = make_graph(tmp_path_factory.mktemp("large"), SCHEMA, records)
    return made.indexed() if request.param == "index" else made


def nearest(vectors: Any, at: tuple[float, float], keep: Any) -> list[str]:
    far = np.square(vectors - np.array(at, np.float32)).sum(axis=1)
    order = [n for n in np.lexsort((np.arange(COUNT), far)) if n % 1_000 != 7 and keep(n)]
    return [f"d{n:05d}" for n in order]


def slugs(graph: Graph, text: str) -> list[str]:
    return [row[0] for row in graph.rows(text)]


def test_the_nearest_of_all(graph: Graph, vectors: Any) -> None:
    text = "match { $d: Doc } return { $d.slug } order { nearest($d.embedding, [0.5, 0.5]) } limit 20 offset 5"
    assert slugs(graph, text) == nearest(vectors, (0.5, 0.5), lambda _: True)[5:25]


def test_the_nearest_under_a_condition(graph: Graph, vectors: Any) -> None:
    ordered = "return { $d.slug } order { nearest($d.embedding, [0.1, 0.9]) } limit 10"
    wanted = nearest(vectors, (0.1, 0.9), lambda n: n % 10 == 3)[:10]
    assert slugs(graph, f"match {{ $d: Doc {{ group: 3 }} }} {ordered}") == wanted
    assert slugs(graph, f"match {{ $d: Doc $d.group + 1 = 4 }} {ordered}") == wanted


def test_the_nearest_that_have_something_rare(graph: Graph, vectors: Any) -> None:
    text = "match { $d: Doc $d has $t } return { $d.slug } order { nearest($d.embedding, [0.2, 0.2]) } limit 3"
    wanted = nearest(vectors, (0.2, 0.2), lambda n: n % 997 == 0)
    assert slugs(graph, text) == wanted[:3]
    assert slugs(graph, text.replace("limit 3", "limit 1000")) == wanted


def test_what_was_asked_of_the_table_is_told(graph: Graph) -> None:
    checked = graph.checked(
        "query q() { match { $d: Doc } return { $d.slug } order { nearest($d.embedding, [0.5, 0.5]) } limit 2 }"
    )
    result, told = PreparedQuery(graph.snapshot, graph.store, graph.catalog, checked, {}, world=REAL).analyze()
    assert len(result) == 2
    assert "Doc.embedding: the best 64" in told.lines[-1].ways
    assert [line.rows for line in told.lines] == [64, 2]


def test_the_best_texts(graph: Graph) -> None:
    text = 'match { $d: Doc } return { $d.slug, bm25($d.text, "fig") as score } order { score } limit 5'
    rows = graph.rows(text)
    everything = graph.rows(text.replace("order { score } limit 5", "order { $d.slug }"))
    best = sorted((row for row in everything if row[1] is not None), key=lambda row: (-round(row[1], 4), row[0]))
    assert [round(row[1], 3) for row in rows] == [round(row[1], 3) for row in best[:5]]


def test_the_worst_texts_can_be_asked_for_too(graph: Graph) -> None:
    text = 'match { $d: Doc } return { bm25($d.text, "fig") as score } order { score asc } limit 3'
    everything = graph.rows('match { $d: Doc } return { bm25($d.text, "fig") as score }')
    worst = sorted(row[0] for row in everything if row[0] is not None)[:3]
    assert [row[0] for row in graph.rows(text)] == pytest.approx(worst)


def test_the_fusion_of_the_best(graph: Graph, vectors: Any) -> None:
    fused = "rrf(nearest($d.embedding, [0.5, 0.5]), nearest($d.embedding, [0.52, 0.5]))"
    text = f"match {{ $d: Doc $d has $t }} return {{ $d.slug }} order {{ {fused} }} limit 4"
    scores: dict[str, float] = {}
    for at in ((0.5, 0.5), (0.52, 0.5)):
        for rank, slug in enumerate(nearest(vectors, at, lambda n: n % 997 == 0)[:4]):
            scores[slug] = scores.get(slug, 0) + 1 / (61 + rank)
    assert slugs(graph, text) == sorted(scores, key=lambda slug: (-scores[slug], slug))[:4]
