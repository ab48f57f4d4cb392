"""Providers against a real server: what they ask, what they believe, and how long they try."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from embeddings.service import Service, serving
from omnigraph.catalog.catalog import Property, PropertyType
from omnigraph.embeddings import Calling, Embeddings, Gemini, Mock, OpenAICompatible, Patience, from_environment
from omnigraph.embeddings.providers import mock_vector
from omnigraph.errors import EmbeddingFailed, InvalidInput
from omnigraph.world import REAL, World

if TYPE_CHECKING:
    from collections.abc import Iterator

QUICK = Patience(attempts=4, backoff=0.001, timeout=5, deadline=20)


@pytest.fixture
def service() -> Iterator[Service]:
    with serving() as service:
        yield service


@pytest.fixture
def openai(service: Service) -> Embeddings:
    return Embeddings(OpenAICompatible(f"{service.url}/v1", "m", "secret", QUICK), batch_size=2)


def test_an_openai_compatible_service_is_asked_in_batches(service: Service, openai: Embeddings) -> None:
    found = openai.vectors(["a", "b", "a", "c"], dimensions=4)
    assert [path for path, _, _ in service.asked] == ["/v1/embeddings"] * 2
    assert [body for _, _, body in service.asked] == [
        {"model": "m", "input": ["a", "b"], "dimensions": 4},
        {"model": "m", "input": ["c"], "dimensions": 4},
    ]
    assert service.asked[0][1]["authorization"] == "Bearer secret"
    np.testing.assert_allclose(found, [mock_vector(text, 4) for text in "abac"], rtol=1e-6)


def test_gemini_is_asked_for_one_text_or_for_many(service: Service) -> None:
    gemini = Embeddings(Gemini("secret", "g", f"{service.url}/v1beta", QUICK))
    gemini.vectors(["a"], dimensions=3, purpose="query")
    found = gemini.vectors(["a", "b"], dimensions=3)
    assert [path for path, _, _ in service.asked] == [
        "/v1beta/models/g:embedContent",
        "/v1beta/models/g:batchEmbedContents",
    ]
    assert service.asked[0][1]["x-goog-api-key"] == "secret"
    assert service.asked[0][2] == {
        "model": "models/g",
        "content": {"parts": [{"text": "a"}]},
        "taskType": "RETRIEVAL_QUERY",
        "outputDimensionality": 3,
    }
    assert {each["taskType"] for each in service.asked[1][2]["requests"]} == {"RETRIEVAL_DOCUMENT"}
    np.testing.assert_allclose(found, [mock_vector(text, 3) for text in "ab"], rtol=1e-6)


@pytest.mark.parametrize("troubles", [[429], [500, 503], [502, 429, 500]])
def test_what_may_pass_is_tried_again(service: Service, openai: Embeddings, troubles: list[int]) -> None:
    service.troubles = [*troubles]
    assert len(openai.vectors(["a"], dimensions=2)) == 1
    assert len(service.asked) == len(troubles) + 1


def test_after_the_last_attempt_it_is_an_error(service: Service, openai: Embeddings) -> None:
    service.troubles = [500] * 9
    with pytest.raises(EmbeddingFailed, match="failed 4 times: status 500, out of order"):
        openai.vectors(["a"], dimensions=2)
    assert len(service.asked) == 4


def test_a_refusal_is_not_tried_again_and_the_key_is_not_told(service: Service, openai: Embeddings) -> None:
    service.troubles = [401]
    with pytest.raises(EmbeddingFailed, match="status 401") as caught:
        openai.vectors(["a"], dimensions=2)
    assert len(service.asked) == 1
    assert "secret" not in str(caught.value) + repr(openai)


def test_nobody_at_the_address_is_an_error_in_time() -> None:
    with serving() as gone:
        url = gone.url
    nobody = Embeddings(OpenAICompatible(url, "m", None, Patience(attempts=2, backoff=0.001, timeout=1, deadline=3)))
    with pytest.raises(EmbeddingFailed, match="failed 2 times"):
        nobody.vectors(["a"], dimensions=2)


def test_the_deadline_holds_for_all_attempts(service: Service) -> None:
    service.troubles = [500] * 99
    hurried = OpenAICompatible(service.url, "m", None, Patience(attempts=99, backoff=0.05, timeout=1, deadline=0.2))
    with pytest.raises(EmbeddingFailed, match=r"within 0\.2 s: status 500"):
        Embeddings(hurried).vectors(["a"], dimensions=2)
    assert len(service.asked) < 6


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("not json", "not JSON"),
        ('{"data": 1}', "another shape"),
        ('{"data": []}', "0 vectors for 1 texts"),
        ('{"data": [{"embedding": [1.0]}]}', "1 dimensions where 2"),
        ('{"data": [{"embedding": [NaN, 1.0]}]}', "not a finite number"),
        ('{"data": [{"embedding": [0.0, 0.0]}]}', "length 0"),
        ('{"data": [{"embedding": ["x", 1]}]}', "not a vector"),
    ],
)
def test_what_is_no_vector_is_not_believed(service: Service, openai: Embeddings, answer: str, told: str) -> None:
    service.troubles = [answer]
    with pytest.raises(EmbeddingFailed, match=told):
        openai.vectors(["a"], dimensions=2)


def test_a_made_up_vector_is_the_same_everywhere() -> None:
    vector = mock_vector("hello", 4)
    assert vector == mock_vector("hello", 4)
    assert math.isclose(sum(each * each for each in vector), 1, rel_tol=1e-6)
    seed = 0xCBF29CE484222325
    for byte in b"hello":
        seed = ((seed ^ byte) * 0x100000001B3) % 2**64
    assert seed == 0xA430D84680AABD0B


def test_any_function_can_make_vectors() -> None:
    lengths = Embeddings(Calling(lambda texts: [[float(len(each)), 0.0] for each in texts], "lengths"))
    assert lengths.vectors(["a", "bb"], dimensions=2).tolist() == [[1.0, 0.0], [1.0, 0.0]]


def test_the_model_of_a_property_must_be_the_providers() -> None:
    declared = Property("v", PropertyType("Vector", dimensions=2), embed_source="t", embed_model="other")
    with pytest.raises(InvalidInput, match=r"'other'.*'mock'"):
        Embeddings(Mock()).of_property(["a"], declared, world=REAL)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"OMNIGRAPH_EMBEDDINGS_MOCK": "1", "OMNIGRAPH_EMBED_PROVIDER": "gemini"}, Mock()),
        ({"OMNIGRAPH_EMBED_PROVIDER": "mock"}, Mock()),
        (
            {"OPENAI_API_KEY": "k"},
            OpenAICompatible("https://openrouter.ai/api/v1", "openai/text-embedding-3-large", "k"),
        ),
        (
            {"OMNIGRAPH_EMBED_PROVIDER": "openai", "OPENAI_API_KEY": "k", "OMNIGRAPH_EMBED_MODEL": "m"},
            OpenAICompatible("https://api.openai.com/v1", "m", "k"),
        ),
        (
            {"OMNIGRAPH_EMBED_PROVIDER": "gemini", "GEMINI_API_KEY": "k", "OMNIGRAPH_EMBED_BASE_URL": "http://x"},
            Gemini("k", "gemini-embedding-2", "http://x"),
        ),
        (
            {"OPENROUTER_API_KEY": "k", "OMNIGRAPH_EMBED_TIMEOUT_MS": "5", "OMNIGRAPH_EMBED_DEADLINE_MS": "0"},
            OpenAICompatible(
                "https://openrouter.ai/api/v1",
                "openai/text-embedding-3-large",
                "k",
                Patience(timeout=0.005, deadline=0.0),
            ),
        ),
    ],
)
def test_the_environment_names_the_provider(environ: dict[str, str], expected: Any) -> None:
    assert from_environment(World(environ)).provider == expected


@pytest.mark.parametrize(
    ("environ", "kind", "told"),
    [
        ({}, EmbeddingFailed, "OPENROUTER_API_KEY or OPENAI_API_KEY is required for the openai-compatible"),
        ({"OMNIGRAPH_EMBED_PROVIDER": "gemini"}, EmbeddingFailed, "GEMINI_API_KEY is required"),
        ({"OMNIGRAPH_EMBED_PROVIDER": "x"}, InvalidInput, "it can be openai-compatible, openai, gemini or mock"),
        ({"OPENAI_API_KEY": "k", "OMNIGRAPH_EMBED_TIMEOUT_MS": "soon"}, InvalidInput, "whole number"),
    ],
)
def test_what_is_missing_or_wrong_in_the_environment_is_named(
    environ: dict[str, str], kind: type[Exception], told: str
) -> None:
    with pytest.raises(kind, match=told):
        from_environment(World(environ))


def test_json_of_a_request_is_plain(service: Service, openai: Embeddings) -> None:
    openai.vectors(['é "quoted" \n'], dimensions=2)
    assert json.loads(json.dumps(service.asked[0][2]["input"])) == ['é "quoted" \n']
