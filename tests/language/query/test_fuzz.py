"""Whatever the text, the language answers with a tree or with a QueryError, and never with anything else."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from language.query.showing import FIXTURES, world
from omnigraph.errors import QueryError
from omnigraph.language.gq.check import check_query
from omnigraph.language.gq.lint import lint
from omnigraph.language.gq.syntax.parse import parse_queries
from omnigraph.language.ir import expressions as made
from omnigraph.language.ir.describe import describe_operation
from omnigraph.language.ir.params import bind_params

_CATALOG = world()
_SOURCES = [each.read_text() for each in sorted(FIXTURES.glob("*.gq"))]
_QUERIES = [each for text in _SOURCES for each in re.split(r"(?m)^(?=query )", text) if each.startswith("query ")]
_TOKENS = sorted(set(re.findall(r'"[^"\n]*"|\$?\w+|[<>=!]+|\S', "".join(_SOURCES))))

_soup = st.lists(st.sampled_from(_TOKENS), max_size=60).map(" ".join)
_wrapped = _soup.map(lambda inside: f"query q($x: I32) {{ match {{ $p: Person {inside} }} return {{ $p.name }} }}")
_returned = _soup.map(lambda inside: f"query q($x: I32) {{ match {{ $p: Person $p knows $f }} return {{ {inside} }} }}")
_changing = _soup.map(lambda inside: f"query q($x: I32) {{ update Person set {{ age: $x }} where {inside} }}")


@st.composite
def _damaged(draw: st.DrawFn) -> str:
    """A good query with some tokens dropped, doubled, swapped or replaced."""
    tokens = re.findall(r'"[^"\n]*"|\$?\w+|\s+|[<>=!]+|\S', draw(st.sampled_from(_QUERIES)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(tokens) - 1))
        tokens[at : at + 1] = draw(
            st.sampled_from([[], [tokens[at]] * 2, [draw(st.sampled_from(_TOKENS))], [tokens[at - 1], tokens[at]]])
        )
        if not tokens:
            return ""
    return "".join(tokens)


_anything = st.one_of(st.text(max_size=80), _soup, _wrapped, _returned, _changing, _damaged())
_quiet = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}


def answer(text: str) -> int:
    """How many queries of the text pass; anything but a QueryError escapes."""
    try:
        queries = parse_queries(text).queries
    except QueryError as error:
        _inspect(error, text, r"Q000")
        return 0
    return sum(_passes(each, text) for each in queries)


def _passes(query: object, text: str) -> bool:
    try:
        checked = check_query(query, _CATALOG)
    except QueryError as error:
        _inspect(error, text, r"T\d+|D2")
        return False
    describe_operation(checked, _CATALOG)
    with pytest.raises(QueryError):
        bind_params(checked, {"no such": 1})
    for column in getattr(checked, "columns", ()):
        assert all(each.type is not None for each in made.walk(column.value))
    return True


def _inspect(error: QueryError, text: str, codes: str) -> None:
    assert error.diagnostics
    assert all(re.fullmatch(codes, each.code) for each in error.diagnostics)
    assert all(0 <= each.start <= each.end <= len(text) for each in error.diagnostics)


@given(_anything)
@settings(max_examples=300, **_quiet)
def test_any_text_is_answered(text: str) -> None:
    answer(text)


@pytest.mark.slow
@given(_anything)
@settings(max_examples=10_000, **_quiet)
def test_very_many_texts_are_answered(text: str) -> None:
    answer(text)


def test_the_fuzz_reaches_past_the_parser() -> None:
    """Among the texts that it starts from, some pass and some fail in the check."""
    assert {answer(query) for query in _QUERIES} == {0, 1}


@given(st.text(max_size=60))
@settings(max_examples=100, **_quiet)
def test_lint_never_raises(text: str) -> None:
    assert lint(text, _CATALOG).to_json()["status"] in {"ok", "error"}


@given(st.sampled_from(_QUERIES), st.data())
@settings(max_examples=100, **_quiet)
def test_layout_and_comments_do_not_matter(query: str, data: st.DataObject) -> None:
    tokens = re.findall(
        r'"(?:[^"\\\n]|\\.)*"|\$?\w+(?:\.\d+(?:e[+-]?\d+)?)?|\d+e[+-]?\d+|[<>=!]+|\S', _uncommented(query)
    )
    spaces = data.draw(st.lists(st.sampled_from([" ", "\n", "\t\r\n", " /* x */ ", " // y\n"]), min_size=1, max_size=5))
    spread = "".join(token + spaces[index % len(spaces)] for index, token in enumerate(tokens))
    assert parse_queries(spread).queries == parse_queries(query).queries


def _uncommented(text: str) -> str:
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text)
