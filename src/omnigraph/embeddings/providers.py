"""Embedding providers: two kinds of services, any Python function, and a mock for tests.

A provider is a value: it can be compared, printed without its key, and pickled. Vectors of the mock are bit for bit
those of the released program.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from omnigraph.catalog.canonical import hash64
from omnigraph.embeddings.http import USUAL, Patience, post
from omnigraph.errors import EmbeddingFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from omnigraph.world import World

    Vectors = Sequence[Sequence[float]]

_MASK = (1 << 64) - 1


def mock_vector(text: str, dimensions: int) -> list[float]:
    """A pseudo-random unit vector: xorshift seeded with the FNV-1a hash of the text, components in [-1, 1]."""
    seed = hash64(text)
    components = np.empty(dimensions, np.float32)
    for at in range(dimensions):
        seed ^= (seed << 13) & _MASK
        seed ^= seed >> 7
        seed ^= (seed << 17) & _MASK
        components[at] = np.float32(2) * np.float32(float(seed) / float(_MASK)) - np.float32(1)
    length = np.sqrt(np.sum(components.astype(np.float64) ** 2))
    return [float(each) for each in (components.astype(np.float64) / length).astype(np.float32)]


# Some models return different vectors for a search query and for a stored document.
Purpose = Literal["query", "document"]
_TASKS = {"query": "RETRIEVAL_QUERY", "document": "RETRIEVAL_DOCUMENT"}


@dataclass(frozen=True)
class Ask:
    """A request for the vectors of texts, with a number of dimensions."""

    texts: tuple[str, ...]
    dimensions: int
    purpose: Purpose
    world: World


class Provider(Protocol):
    """Computes vectors of texts, in their order."""

    @property
    def model(self) -> str:
        """The name of the model, as in `@embed(…, model="…")`."""

    def embed(self, ask: Ask) -> Vectors:
        """One vector for each text. The caller validates them."""


@dataclass(frozen=True)
class OpenAICompatible:
    """A service with OpenAI's API: OpenAI itself, OpenRouter, vLLM, Ollama and many others."""

    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    patience: Patience = USUAL

    def embed(self, ask: Ask) -> Vectors:
        """Send one request for all texts."""
        headers = {} if self.api_key is None else {"Authorization": f"Bearer {self.api_key}"}
        body = {"model": self.model, "input": list(ask.texts), "dimensions": ask.dimensions}
        url = f"{self.base_url.rstrip('/')}/embeddings"
        answer = post(url, body, headers, self.patience, ask.world, name=self.base_url)
        return _read(lambda: [each["embedding"] for each in sorted(answer["data"], key=_index)], self.base_url)


@dataclass(frozen=True)
class Gemini:
    """Google's Gemini API."""

    api_key: str = field(repr=False)
    model: str = "gemini-embedding-2"
    base_url: str = "https://generativelanguage.googleapis.com/v1beta"
    patience: Patience = USUAL

    def embed(self, ask: Ask) -> Vectors:
        """Send one request, with the endpoint for a single text or for a batch."""
        requests = [self._request(text, ask) for text in ask.texts]
        if len(requests) == 1:
            answer = self._post("embedContent", requests[0], ask.world)
            return _read(lambda: [answer["embedding"]["values"]], self.base_url)
        answer = self._post("batchEmbedContents", {"requests": requests}, ask.world)
        return _read(lambda: [each["values"] for each in answer["embeddings"]], self.base_url)

    def _request(self, text: str, ask: Ask) -> dict[str, object]:
        return {
            "model": f"models/{self.model}",
            "content": {"parts": [{"text": text}]},
            "taskType": _TASKS[ask.purpose],
            "outputDimensionality": ask.dimensions,
        }

    def _post(self, verb: str, body: object, world: World) -> Any:
        url = f"{self.base_url.rstrip('/')}/models/{self.model}:{verb}"
        return post(url, body, {"x-goog-api-key": self.api_key}, self.patience, world, name=self.base_url)


@dataclass(frozen=True)
class Calling:
    """Any function from a list of texts to a list of vectors, such as a model in this process."""

    function: Callable[[list[str]], Vectors]
    model: str = "function"

    def embed(self, ask: Ask) -> Vectors:
        """Call the function."""
        return self.function(list(ask.texts))


@dataclass(frozen=True)
class Mock:
    """Returns meaningless vectors that are equal for equal texts on every machine and in every release."""

    model: str = "mock"

    def embed(self, ask: Ask) -> Vectors:
        """Derive the vectors from the bytes of the texts."""
        return [mock_vector(text, ask.dimensions) for text in ask.texts]


def _index(each: dict[str, Any]) -> int:
    return int(each.get("index", 0))


def _read(extract: Callable[[], Vectors], name: str) -> Vectors:
    try:
        return extract()
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise EmbeddingFailed(f"{name} gave an answer of another shape ({error!r}).", provider=name) from error
