"""Embedding providers: two kinds of services, any Python function, and a mock for tests.

A provider is a value: it can be compared, printed without its key, and pickled. Vectors of the mock are bit for bit
those of the released program. Requests are retried with
exponential backoff until a deadline.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import urllib3

from omnigraph.catalog.canonical import hash64
from omnigraph.errors import EmbeddingFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from omnigraph.world import World

    Vectors = Sequence[Sequence[float]]


_AGAIN = frozenset({429, *range(500, 600)})
_SHOWN = 300
# Connections are reused between requests. A forked or remote process opens its own.
_pool = urllib3.PoolManager(retries=False)


@dataclass(frozen=True)
class Patience:
    """Retry limits: attempts, first pause (doubled each time), seconds per request, and seconds in total (0: none)."""

    attempts: int = 4
    backoff: float = 0.2
    timeout: float = 30.0
    deadline: float = 60.0


USUAL = Patience()


def post(url: str, body: object, headers: Mapping[str, str], patience: Patience, world: World, *, name: str) -> Any:
    """POST JSON and return the JSON response. Time-outs, broken connections, 429 and 5xx are retried."""
    began = world.monotonic()
    reason = ""
    for attempt in range(max(1, patience.attempts)):
        left = _time_left(patience, world.monotonic() - began)
        if left <= 0:
            raise EmbeddingFailed(f"{name} did not answer within {patience.deadline:g} s{reason}.", provider=name)
        status, text = _once(url, body, headers, min(patience.timeout, left))
        if status is not None and status not in _AGAIN:
            return _answer(status, text, name)
        reason = f": {f'status {status}, ' if status is not None else ''}{text[:_SHOWN]}"
        if attempt + 1 < patience.attempts:
            world.sleep(min(patience.backoff * 2**attempt, left))
    raise EmbeddingFailed(f"{name} failed {patience.attempts} times{reason}. Try again later.", provider=name)


def _time_left(patience: Patience, spent: float) -> float:
    return patience.deadline - spent if patience.deadline else float("inf")


def _once(url: str, body: object, headers: Mapping[str, str], timeout: float) -> tuple[int | None, str]:
    try:
        answer = _pool.request(
            "POST",
            url,
            body=json.dumps(body).encode(),
            headers={"Content-Type": "application/json", **headers},
            timeout=timeout,
            redirect=False,
        )
    except urllib3.exceptions.HTTPError as error:
        return None, f"{type(error).__name__}: {error}"
    return int(answer.status), answer.data.decode("utf-8", "replace")


def _answer(status: int, text: str, name: str) -> Any:
    if status != 200:
        raise EmbeddingFailed(
            f"{name} refused the request with status {status}: {text[:_SHOWN]}. "
            "Check the model, the key and the address.",
            provider=name,
        )
    try:
        return json.loads(text)
    except ValueError as error:
        raise EmbeddingFailed(
            f"{name} answered with something that is not JSON: {text[:_SHOWN]}", provider=name
        ) from error


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
