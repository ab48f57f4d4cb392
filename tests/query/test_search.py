"""Search: the same answer without an index, with a part of one, and with a whole one."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from omnigraph.errors import InvalidInput
from query.conftest import SEARCH, doc
from query.graphs import make_graph

if TYPE_CHECKING:
    from pathlib import Path

    from query.graphs import Graph


@pytest.fixture(params=["no index", "whole index", "part of an index"])
def docs(request: pytest.FixtureRequest, search: Graph) -> Graph:
    """The five documents; in the third case the last two were written after the index was built."""
    if request.param == "no index":
        return search
    if request.param == "whole index":
        return search.indexed("node:Doc")
    late = search.query('match { $d: Doc $d.slug in ["cv-overview", "rl-intro"] } return { $d }').to_pylist()
    early = search.delete("node:Doc", ["cv-overview", "rl-intro"]).indexed("node:Doc")
    return early.append("node:Doc", [each["d"] for each in late])


def slugs(graph: Graph, text: str, params: dict[str, Any] | None = None) -> list[str]:
    return [row[0] for row in graph.rows(text, params)]


def found(graph: Graph, condition: str) -> set[str]:
    return set(slugs(graph, f"match {{ $d: Doc {condition} }} return {{ $d.slug }}"))


# -- conditions --------------------------------------------------------------------------------------------------------


def test_search_finds_any_word_whatever_its_case_and_ending(docs: Graph) -> None:
    assert found(docs, 'search($d.title, "learned")') == {"ml-intro", "dl-basics", "rl-intro"}
    assert found(docs, 'search($d.title, "VISION language")') == {"cv-overview", "nlp-guide"}


def test_search_for_a_word_that_is_not_there_finds_nothing(docs: Graph) -> None:
    assert found(docs, 'search($d.title, "quantum")') == set()
    assert found(docs, 'search($d.title, "the of")') == set()


def test_match_text_finds_the_phrase_and_not_its_words_apart(docs: Graph) -> None:
    assert found(docs, 'match_text($d.body, "neural")') == {"dl-basics"}
    assert found(docs, 'match_text($d.body, "neural networks")') == {"dl-basics"}
    assert found(docs, 'match_text($d.body, "networks neural")') == set()
    assert found(docs, 'match_text($d.body, "neural layers")') == set()


def test_a_phrase_that_begins_with_a_word_without_meaning_finds_the_rows_of_the_others(docs: Graph) -> None:
    for row in docs.rows("match { $d: Doc } return { $d.slug, $d.title }"):
        first = str(row[1]).split()[0]
        assert row[0] in found(docs, f'match_text($d.title, "the {first}")')
        assert found(docs, f'match_text($d.title, "the {first}")') == found(docs, f'match_text($d.title, "{first}")')


def test_a_phrase_keeps_the_places_of_words_without_meaning(docs: Graph) -> None:
    assert found(docs, 'match_text($d.body, "trial and error")') == {"rl-intro"}
    assert found(docs, 'match_text($d.body, "trial error")') == set()


def test_fuzzy_finds_typing_errors_anywhere_in_a_word(docs: Graph) -> None:
    assert found(docs, 'fuzzy($d.title, "lerning")') == {"ml-intro", "dl-basics", "rl-intro"}
    assert found(docs, 'fuzzy($d.title, "learnign", 1)') == {"ml-intro", "dl-basics", "rl-intro"}
    assert found(docs, 'fuzzy($d.title, "visoin")') == {"cv-overview"}


def test_fuzzy_allows_no_more_errors_than_it_is_told(docs: Graph) -> None:
    assert found(docs, 'fuzzy($d.title, "lerning", 0)') == set()
    assert found(docs, 'fuzzy($d.title, "xx")') == set()


def test_a_text_search_stands_anywhere_in_a_condition(docs: Graph) -> None:
    assert found(docs, 'not search($d.title, "learning")') == {"nlp-guide", "cv-overview"}
    both = 'search($d.title, "vision") or $d.slug starts_with "nlp"'
    assert found(docs, both) == {"cv-overview", "nlp-guide"}


def test_a_negative_number_of_typing_errors_is_refused(search: Graph) -> None:
    text = 'match { $d: Doc fuzzy($d.title, "learning", $edits) } return { $d.slug }'
    with pytest.raises(InvalidInput, match="typing errors"):
        search.query(f"query q($edits: I64) {{ {text} }}", {"edits": -1})


# -- rankings ----------------------------------------------------------------------------------------------------------


def test_nearest_gives_the_nearest_first(docs: Graph) -> None:
    text = "match { $d: Doc } return { $d.slug } order { nearest($d.embedding, [0.1, 0.2, 0.3, 0.4]) } limit 3"
    assert slugs(docs, text) == ["ml-intro", "nlp-guide", "rl-intro"]


def test_conditions_come_before_the_nearest(docs: Graph) -> None:
    ordered = "return { $d.slug } order { nearest($d.embedding, [0.1, 0.2, 0.3, 0.4]) } limit 3"
    for condition in ('$d.slug != "ml-intro"', '$d.slug > "ml-intro" or $d.slug < "ml-intro"'):
        assert slugs(docs, f"match {{ $d: Doc {condition} }} {ordered}") == ["nlp-guide", "rl-intro", "dl-basics"]
    assert slugs(docs, f'match {{ $d: Doc {{ slug: "cv-overview" }} }} {ordered}') == ["cv-overview"]


def test_distances_are_columns(docs: Graph) -> None:
    text = "match { $d: Doc } return { $d.slug, nearest($d.embedding, $v) as far } order { far } limit 2"
    rows = docs.rows(f"query q($v: Vector(4)) {{ {text} }}", {"v": [0.3, 0.4, 0.5, 0.55]})
    assert [row[0] for row in rows] == ["rl-intro", "nlp-guide"]
    assert rows[0][1] == pytest.approx(0.05**2, rel=1e-5)


def test_bm25_gives_what_matches_best_first(docs: Graph) -> None:
    text = 'match { $d: Doc } return { $d.slug, bm25($d.body, "learning") as score } order { score }'
    rows = docs.rows(text)
    assert [row[0] for row in rows] == ["rl-intro", "ml-intro", "dl-basics"]
    assert all(first[1] >= second[1] for first, second in pairwise(rows))


def test_a_score_is_null_where_nothing_matches(docs: Graph) -> None:
    text = 'match { $d: Doc } return { $d.slug, bm25($d.body, "neural") as score } order { $d.slug }'
    assert [row[1] is None for row in docs.rows(text)] == [True, False, True, True, True]


def test_scores_do_not_depend_on_the_index(search: Graph) -> None:
    text = 'match { $d: Doc } return { $d.slug, bm25($d.body, "learning data") as score } order { score }'
    bare, indexed = search.rows(text), search.indexed("node:Doc").rows(text)
    assert [row[0] for row in bare] == [row[0] for row in indexed]
    assert [row[1] for row in bare] == pytest.approx([row[1] for row in indexed], rel=1e-5)


def test_rrf_fuses_two_texts(docs: Graph) -> None:
    fused = 'rrf(bm25($d.title, "learning"), bm25($d.body, "learning"))'
    text = f"match {{ $d: Doc }} return {{ $d.slug }} order {{ {fused} }} limit 3"
    assert slugs(docs, text) == ["rl-intro", "dl-basics", "ml-intro"]


def test_rrf_fuses_a_vector_and_a_text(docs: Graph) -> None:
    fused = 'rrf(nearest($d.embedding, [0.1, 0.2, 0.3, 0.4]), bm25($d.title, "learning"), 10)'
    rows = docs.rows(f"match {{ $d: Doc }} return {{ $d.slug, {fused} as score }} order {{ score }} limit 3")
    assert [row[0] for row in rows] == ["ml-intro", "rl-intro", "dl-basics"]
    assert rows[0][1] == pytest.approx(1 / 11 + 1 / 13)


def test_rrf_of_two_vectors_ranks_what_is_near_to_both(docs: Graph) -> None:
    fused = "rrf(nearest($d.embedding, [0.1, 0.2, 0.3, 0.4]), nearest($d.embedding, [0.5, 0.6, 0.7, 0.8]))"
    rows = slugs(docs, f"match {{ $d: Doc }} return {{ $d.slug }} order {{ {fused} }} limit 3")
    assert set(rows) == {"rl-intro", "ml-intro", "dl-basics"}


def test_a_text_for_nearest_is_embedded(search: Graph) -> None:
    text = 'match { $d: Doc } return { $d.slug } order { nearest($d.embedding, "machines") } limit 1'
    embedded = search.query(text, embed=lambda _text, _declared: [0.8, 0.7, 0.6, 0.5]).to_pylist()
    assert embedded == [{"d.slug": "cv-overview"}]
    with pytest.raises(InvalidInput, match="OPENROUTER_API_KEY or OPENAI_API_KEY"):
        search.query(text)


# -- with traversal ----------------------------------------------------------------------------------------------------

CITED = """
node Author { name: String @key }
node Doc { slug: String @key
  title: String? @index
  embedding: Vector(2)? @index }
edge Wrote: Author -> Doc
"""


@pytest.fixture
def cited(tmp_path: Path) -> Graph:
    documents = [
        {"slug": "a", "title": "red apples", "embedding": [0.0, 0.0]},
        {"slug": "b", "title": "green apples", "embedding": [1.0, 0.0]},
        {"slug": "c", "title": "red pears", "embedding": [2.0, 0.0]},
        {"slug": "d", "title": None, "embedding": None},
    ]
    wrote = [("ada", "a"), ("bob", "a"), ("ada", "b"), ("bob", "c"), ("ada", "d")]
    return make_graph(
        tmp_path,
        CITED,
        {
            "Author": [{"name": "ada"}, {"name": "bob"}],
            "Doc": documents,
            "Wrote": [{"src": src, "dst": dst} for src, dst in wrote],
        },
    )


def test_text_is_searched_on_a_variable_that_a_traversal_reached(cited: Graph) -> None:
    text = (
        'match { $p: Author { name: "bob" } $p wrote $d search($d.title, "red") } return { $d.slug } order { $d.slug }'
    )
    assert slugs(cited, text) == ["a", "c"]
    assert slugs(cited.indexed(), text) == ["a", "c"]


def test_text_is_searched_inside_a_negation(cited: Graph) -> None:
    text = 'match { $p: Author not { $p wrote $d search($d.title, "green") } } return { $p.name }'
    assert slugs(cited, text) == ["bob"]


def test_a_rank_survives_the_fan_out_of_edges(cited: Graph) -> None:
    text = (
        "match { $d: Doc $p wrote $d } return { $d.slug, $p.name }"
        " order { nearest($d.embedding, [0.0, 0.0]), $p.name } limit 4"
    )
    assert cited.rows(text) == [("a", "ada"), ("a", "bob"), ("b", "ada"), ("c", "bob")]


def test_further_keys_break_ties_of_the_nearest(cited: Graph) -> None:
    ordered = "return { $d.slug } order { nearest($d.embedding, [1.0, 0.0]), $d.slug DIRECTION } limit 2"
    for direction, second in (("asc", "a"), ("desc", "c")):
        assert slugs(cited, f"match {{ $d: Doc }} {ordered.replace('DIRECTION', direction)}") == ["b", second]


def test_nearest_goes_on_until_enough_of_the_nearest_match_the_rest(cited: Graph) -> None:
    text = (
        'match { $p: Author { name: "bob" } $p wrote $d } return { $d.slug }'
        " order { nearest($d.embedding, [1.0, 0.0]) } limit 1"
    )
    assert slugs(cited, text) == ["a"]
    assert len(slugs(cited, text.replace("limit 1", "limit 5"))) == 2


def test_what_has_no_vector_is_not_near(cited: Graph) -> None:
    text = "match { $d: Doc } return { $d.slug } order { nearest($d.embedding, [0.0, 0.0]) } limit 10"
    assert slugs(cited, text) == ["a", "b", "c"]


def test_rrf_keeps_every_row_of_a_ranked_node_once(cited: Graph) -> None:
    fused = 'rrf(nearest($d.embedding, [0.0, 0.0]), bm25($d.title, "apples"))'
    rows = cited.rows(f"match {{ $d: Doc $p wrote $d }} return {{ $d.slug, $p.name }} order {{ {fused} }} limit 5")
    assert rows[:2] == [("a", "ada"), ("a", "bob")]
    assert len(rows) == len(set(rows)) == 4


def test_the_order_of_many_nearest_is_kept_across_batches(tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    numbers = random.permutation(10_000)
    made = [doc(f"d{n:05d}", "t", "b", [float(n), 0.0, 0.0, 0.0]) for n in numbers]
    graph = make_graph(tmp_path, SEARCH, {"Doc": made[:5_000]}).append(
        "node:Doc", [{"id": each["slug"], **each} for each in made[5_000:]]
    )
    text = "match { $d: Doc } return { $d.slug } order { nearest($d.embedding, [0.0, 0.0, 0.0, 0.0]) } limit 8193"
    assert slugs(graph, text) == [f"d{n:05d}" for n in range(8_193)]
