"""Searches for what another node says, and distances by the metric that the schema chose."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from query.graphs import make_graph

if TYPE_CHECKING:
    from pathlib import Path

    from query.graphs import Graph

SCHEMA = """
node Topic { name: String @key
  words: String?
  edits: I32
  place: Vector(2)? }
node Doc { slug: String @key
  text: String @index
  place: Vector(2)? @index
  angle: Vector(2)? @index @metric(cosine)
  product: Vector(2)? @index @metric(dot) }
edge About: Doc -> Topic
"""
PLACES: dict[str, list[float] | None] = {"a": [1.0, 0.0], "b": [6.0, 1.0], "c": [0.0, 1.0], "d": None}
TEXTS = {"a": "graphs and trees", "b": "trees in winter", "c": "winter sports", "d": "graphs of winter graphs"}
TOPICS: list[tuple[str, str | None, int, list[float] | None]] = [
    ("forest", "trees", 0, [1.0, 0.0]),
    ("snow", "winter", 0, [0.0, 2.0]),
    ("typo", "wintre", 2, [1.0, 0.0]),
    ("void", None, 0, None),
]


@pytest.fixture(params=["plain", "indexed"])
def graph(request: pytest.FixtureRequest, tmp_path: Path) -> Graph:
    docs = [
        {"slug": slug, "text": TEXTS[slug], "place": place, "angle": place, "product": place}
        for slug, place in PLACES.items()
    ]
    topics = [dict(zip(("name", "words", "edits", "place"), each, strict=True)) for each in TOPICS]
    about = [{"src": "a", "dst": "forest"}, {"src": "c", "dst": "forest"}, {"src": "d", "dst": "snow"}]
    made = make_graph(tmp_path, SCHEMA, {"Topic": topics, "Doc": docs, "About": about})
    return made.indexed() if request.param == "indexed" else made


def pairs(graph: Graph, condition: str) -> list[tuple[Any, ...]]:
    return graph.rows(
        f"match {{ $t: Topic $d: Doc {condition} }} return {{ $t.name, $d.slug }} order {{ $t.name, $d.slug }}"
    )


def test_a_text_is_searched_for_the_words_of_another_node(graph: Graph) -> None:
    found = [("forest", "a"), ("forest", "b"), ("snow", "b"), ("snow", "c"), ("snow", "d")]
    assert pairs(graph, "search($d.text, $t.words)") == found
    assert pairs(graph, "not { $d about $t } search($d.text, $t.words)") == [each for each in found if each not in [
        ("forest", "a"), ("snow", "d")
    ]]  # fmt: skip


def test_a_text_is_searched_for_the_words_of_the_same_node(graph: Graph) -> None:
    assert graph.rows("match { $d: Doc search($d.text, $d.slug) } return { $d.slug }") == []
    assert len(graph.rows("match { $d: Doc match_text($d.text, $d.text) } return { $d.slug }")) == 4


def test_the_number_of_typing_errors_may_come_from_a_node_too(graph: Graph) -> None:
    found = [("forest", "a"), ("forest", "b"), ("snow", "b"), ("snow", "c"), ("snow", "d")]
    assert pairs(graph, "fuzzy($d.text, $t.words, $t.edits)") == [*found, *(("typo", each) for each in "bcd")]
    assert pairs(graph, "fuzzy($d.text, $t.words, $t.edits - $t.edits)") == found


def test_a_search_along_an_edge(graph: Graph) -> None:
    assert graph.rows("match { $d about $t search($d.text, $t.words) } return { $d.slug } order { $d.slug }") == [
        ("a",),
        ("d",),
    ]


def test_scores_are_those_of_the_same_search_with_the_words_given(graph: Graph) -> None:
    by_row = graph.rows(
        "match { $t: Topic $d: Doc } return { $t.words, $d.slug, bm25($d.text, $t.words) as s }"
        " order { $t.words, $d.slug }"
    )
    for words in ("trees", "winter", "wintre"):
        given = graph.rows(
            "query q($w: String) { match { $d: Doc } return { $d.slug, bm25($d.text, $w) as s } order { $d.slug } }",
            {"w": words},
        )
        assert [(slug, score) for text, slug, score in by_row if text == words] == given
    assert {score for text, _, score in by_row if text is None} == {None}


def test_the_nearest_to_the_place_of_another_node(graph: Graph) -> None:
    text = (
        "match { $t: Topic $d: Doc } return { $t.name, $d.slug, nearest($d.place, $t.place) as x }"
        " order { x, $t.name } limit 7"
    )
    found = graph.rows(text)
    assert found[:3] == [("forest", "a", 0.0), ("typo", "a", 0.0), ("snow", "c", 1.0)]
    assert [each[2] for each in found[3:]] == [2.0, 2.0, 5.0, 26.0]


def test_a_fusion_ranks_what_is_best_for_any_row(graph: Graph) -> None:
    text = (
        'match { $t: Topic { name: "snow" } $d: Doc }'
        " return { $d.slug, rrf(nearest($d.place, $t.place), bm25($d.text, $t.words)) as s } order { s } limit 2"
    )
    assert [slug for slug, _ in graph.rows(text)] == ["c", "b"]


# -- metrics -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("place", [("a", 0.0), ("c", 2.0), ("b", 26.0)]),
        ("angle", [("a", 0.0), ("b", 1 - 6 / math.sqrt(37)), ("c", 1.0)]),
        ("product", [("b", -5.0), ("a", 0.0), ("c", 1.0)]),
    ],
)
@pytest.mark.parametrize("other", ["[1.0, 0.0]", "$t.place"])
def test_the_metric_is_the_one_that_the_schema_chose(
    graph: Graph, name: str, other: str, expected: list[tuple[str, float]]
) -> None:
    found = graph.rows(
        f'match {{ $t: Topic {{ name: "forest" }} $d: Doc }} return {{ $d.slug, nearest($d.{name}, {other}) as x }}'
        " order { x } limit 3"
    )
    assert [slug for slug, _ in found] == [slug for slug, _ in expected]
    assert [x for _, x in found] == pytest.approx([x for _, x in expected], abs=1e-6)
