"""Whatever the text, the language answers with a catalog or with its own error, in linear time."""

from __future__ import annotations

from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.lark import from_lark
from lark import Lark

from language.schema.generated import schemas
from omnigraph.errors import SchemaError
from omnigraph.language.schema.compile import compile_accepted, compile_schema
from omnigraph.language.schema.findings import CODES

FIXTURES = sorted((Path(__file__).parent / "fixtures").glob("*/*.pg"))
TEXTS = [path.read_text(encoding="utf-8", errors="surrogatepass") for path in FIXTURES]
TOKENS = [
    *("node", "edge", "interface", "implements", "enum", "Vector", "String", "Blob", "I32", "DateTime", "Date"),
    *(
        "Person",
        "A",
        "name",
        "a",
        "src",
        "id",
        "true",
        "false",
        "key",
        "card",
        "range",
        "x-y",
        "0",
        "-1",
        "2.5",
        "99999",
    ),
    *("{", "}", "(", ")", "[", "]", ":", "->", "-", ",", "@", "=", "..", ".", "?", "*", '"', '"s"', '"\\q"', "\\"),
    *("//", "/*", "*/", "\n", " ", "\t", "é", "\0", "\ud800", "@key", "@default(", "@range(a, ..", "@check(a, "),
]
relaxed = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def refusal(text: str) -> SchemaError | None:
    """Compile; whatever is raised besides the language's own error fails the test."""
    try:
        compile_schema(text)
    except SchemaError as error:
        with suppress(SchemaError):
            compile_accepted(text)
        return error
    # What a new schema may say, the schema of an existing graph may say too.
    compile_accepted(text)
    return None


def answer(text: str) -> None:
    """A text is compiled, or refused with findings that lie inside it."""
    error = refusal(text)
    for each in error.diagnostics if error else ():
        assert each.code in CODES
        assert 0 <= each.start <= each.end <= len(text)
        assert each.line == text.count("\n", 0, each.start) + 1
        assert "Traceback" not in str(each)
    assert error is None or error.diagnostics


def _mutilated(text: str, other: str, rng: Any) -> str:
    """One valid text with a fragment missing, doubled, or replaced by a fragment of another."""
    start, length = rng.randrange(len(text) + 1), rng.choice([1, 1, 2, 5, 20])
    fragment = rng.choice(["", text[start : start + length] * 2, other[start : start + length], rng.choice(TOKENS)])
    return text[:start] + fragment + text[start + length :]


# The grammar itself as a generator, without the comments and spaces that it may put anywhere.
_GRAMMAR = files("omnigraph.language.schema").joinpath("grammar.lark").read_text(encoding="utf-8")
anything = st.text(st.characters(), max_size=60)
token_soup = st.lists(st.sampled_from(TOKENS), max_size=40).map(" ".join) | st.lists(st.sampled_from(TOKENS)).map(
    "".join
)
from_the_grammar = from_lark(Lark(_GRAMMAR, start=["schema"]))
almost_right = st.builds(
    _mutilated, schemas | st.sampled_from(TEXTS), st.sampled_from(TEXTS), st.randoms(use_true_random=True)
)


@relaxed
@given(anything)
def test_any_text_is_answered(text: str) -> None:
    answer(text)


@relaxed
@given(token_soup)
def test_any_sequence_of_tokens_is_answered(text: str) -> None:
    answer(text)


@settings(relaxed, max_examples=20)
@given(from_the_grammar)
def test_any_sentence_of_the_grammar_is_answered(text: str) -> None:
    answer(text)


@relaxed
@given(almost_right)
def test_a_text_with_a_mistake_is_answered(text: str) -> None:
    answer(text)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(
    ("texts", "cases"),
    [(anything, 3_000), (token_soup, 3_000), (almost_right, 3_000), (from_the_grammar, 1_000)],
    ids=["anything", "token soup", "almost right", "from the grammar"],
)
def test_ten_thousand_texts_are_answered(texts: st.SearchStrategy[str], cases: int) -> None:
    @settings(relaxed, max_examples=cases)
    @given(texts)
    def answered(text: str) -> None:
        answer(text)

    answered()


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "{" * 100_000,
        "(" * 100_000,
        "node A {" * 20_000,
        "node A { a: " + "[" * 100_000,
        f"node {'A' * 1_000_000} {{}}",
        f"node A {{ {'a' * 1_000_000}: I32 }}",
        f"node A {{ a: {'S' * 1_000_000} }}",
        f"node A {{ a: Vector({'9' * 100_000}) }}",
        f"node A {{ a: I32 @range(a, {'9' * 100_000}..) }}",
        f"node A {{ a: I32 @default({'9' * 100_000}) }}",
        f"node A {{ a: F64 @default({'9' * 100_000}) }}",
        f"edge A: B -> C @card({'9' * 100_000}..)",
        f'node A @description("{"x" * 1_000_000}") {{}}',
        f"/*{'*' * 1_000_000}",
        "@a(" * 50_000,
        "\ud800",
    ],
    ids=lambda text: text[:24],
)
def test_deep_and_long_texts_are_answered(text: str) -> None:
    answer(text)


@pytest.mark.parametrize(
    "unit",
    [
        "node A { a: I32 }\n",
        "node A {\n",
        "node A { a: ]\n }\n",
        "  a: ]\n",
        '"',
        '"\\',
        "/*",
        "/* * ",
        "// x\n",
        "@a(",
        "@key\n",
        "a",
        "9",
        "-",
        " ",
        "\n",
        '@d("x"\n',
        "enum(",
    ],
    ids=repr,
)
def test_time_is_linear_in_the_text(unit: str) -> None:
    size = 8_000
    small = max(0.02, min(_seconds(unit * (size // len(unit))) for _ in range(2)))
    large = min(_seconds(unit * (8 * size // len(unit))) for _ in range(2))
    # Eight times the text: a quadratic parser would need sixty-four times as long.
    assert large < 24 * small


def _seconds(text: str) -> float:
    start = process_time()
    answer(text)
    return process_time() - start
