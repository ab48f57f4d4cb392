"""Computes vectors for texts with a provider, and fills the `@embed` vectors of rows.

Requests are batched, each distinct text is sent once, and every returned vector is validated. Filling rows works on
Arrow tables only, so that any engine can use it as a step.

`from_environment` reads the provider from the environment, with the variable names of the released program.

OMNIGRAPH_EMBED_PROVIDER   openai-compatible (OpenRouter by default), openai, gemini or mock
OMNIGRAPH_EMBED_BASE_URL, OMNIGRAPH_EMBED_MODEL          override the provider's defaults
OMNIGRAPH_EMBED_RETRY_ATTEMPTS, _RETRY_BACKOFF_MS, _TIMEOUT_MS, _DEADLINE_MS
OMNIGRAPH_EMBEDDINGS_MOCK  anything but 0 and false selects the mock provider
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import arrow_type
from omnigraph.embeddings.providers import USUAL, Ask, Gemini, Mock, OpenAICompatible, Patience
from omnigraph.errors import EmbeddingFailed, InvalidInput
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from omnigraph.catalog.catalog import EdgeType, NodeType, Property
    from omnigraph.embeddings.providers import Provider, Purpose
    from omnigraph.world import World


def fill_vectors(rows: pa.Table, kind: NodeType | EdgeType, embeddings: Embeddings, world: World) -> pa.Table:
    """Compute the vector of every `@embed` property in rows that have its source text and no vector."""
    for each in kind.properties.values():
        if each.embed_source in rows.column_names and each.name in rows.column_names:
            at = rows.column_names.index(each.name)
            rows = rows.set_column(at, rows.schema.field(at), _filled(rows, each, embeddings, world))
    return rows


def expect_vectors(rows: pa.Table, kind: NodeType | EdgeType) -> pa.Table:
    """Put a zero vector wherever `fill_vectors` would compute one, for validation before the provider is called."""
    for each in kind.properties.values():
        if each.embed_source in rows.column_names and each.name in rows.column_names:
            at, missing = rows.column_names.index(each.name), _missing(rows, each)
            zeros = np.zeros((len(missing), each.type.dimensions or 0), np.float32)
            rows = rows.set_column(at, rows.schema.field(at), _with(rows, each, missing, zeros))
    return rows


@dataclass(frozen=True)
class EmbeddingStep:
    """`fill_vectors` over a stream of batches: the body of a Spark `mapInArrow`. Pickled with its provider."""

    kind: NodeType
    embeddings: Embeddings

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield each batch with its vectors filled."""
        for batch in batches:
            yield from fill_vectors(pa.Table.from_batches([batch]), self.kind, self.embeddings, REAL).to_batches()


def _filled(rows: pa.Table, declared: Property, embeddings: Embeddings, world: World) -> pa.ChunkedArray[Any]:
    missing = _missing(rows, declared)
    if not len(missing):
        return rows.column(declared.name)
    wanted: list[Any] = rows.column(declared.embed_source or "").take(missing).to_pylist()
    return _with(rows, declared, missing, embeddings.of_property(wanted, declared, world=world))


def _missing(rows: pa.Table, declared: Property) -> NDArray[np.int64]:
    """The positions of rows that have a text and no vector."""
    vectors, texts = rows.column(declared.name), rows.column(declared.embed_source or "")
    lengths: Any = pc.utf8_length(texts)
    missing: Any = pc.and_(pc.is_null(vectors), pc.greater(lengths, pa.scalar(0, lengths.type)).fill_null(False))
    return np.flatnonzero(missing.to_numpy())


def _with(
    rows: pa.Table, declared: Property, missing: NDArray[np.int64], made: NDArray[np.float32]
) -> pa.ChunkedArray[Any]:
    vectors, kind = rows.column(declared.name), cast("Any", arrow_type(declared.type))
    new = pa.FixedSizeListArray.from_arrays(pa.array(made.reshape(-1), pa.float32()), type=kind)
    order = np.full(rows.num_rows, -1)
    order[missing] = np.arange(len(missing))
    choice = np.where(order < 0, np.arange(rows.num_rows), rows.num_rows + order)
    return pa.chunked_array([*vectors.cast(kind).chunks, new], kind).take(choice)


_SHORTEST = 1e-12


@dataclass(frozen=True)
class Embeddings:
    """A provider with the number of texts per request. Vectors are normalized to length 1."""

    provider: Provider
    batch_size: int = 64

    def vectors(
        self, texts: Sequence[str], *, dimensions: int, purpose: Purpose = "document", world: World = REAL
    ) -> NDArray[np.float32]:
        """The vectors of texts, one row each. Duplicate texts are requested once."""
        distinct = list(dict.fromkeys(texts))
        found = np.empty((len(distinct), dimensions), np.float32)
        for at in range(0, len(distinct), self.batch_size):
            batch = tuple(distinct[at : at + self.batch_size])
            given = self.provider.embed(Ask(batch, dimensions, purpose, world))
            found[at : at + len(batch)] = self._proper(given, len(batch), dimensions)
        rows_by_text = {text: row for row, text in enumerate(distinct)}
        return found[[rows_by_text[text] for text in texts]]

    def of_property(
        self, texts: Sequence[str], declared: Property, *, world: World, purpose: Purpose = "document"
    ) -> NDArray[np.float32]:
        """The vectors for a Vector property. If the property names a model, the provider must have the same."""
        dimensions = declared.type.dimensions
        if dimensions is None:
            raise InvalidInput(f"{declared.name} is a {declared.type}, and only vectors are made from texts.")
        if declared.embed_model is not None and declared.embed_model != self.provider.model:
            raise InvalidInput(
                f"{declared.name} has vectors of the model {declared.embed_model!r}, and the embedding provider is set "
                f"up for {self.provider.model!r}: vectors of different models cannot be compared. Set "
                f"OMNIGRAPH_EMBED_MODEL={declared.embed_model}, or pass a vector."
            )
        return self.vectors(texts, dimensions=dimensions, purpose=purpose, world=world)

    def _proper(self, given: Sequence[Sequence[float]], count: int, dimensions: int) -> NDArray[np.float32]:
        if len(given) != count:
            raise self._failure(f"gave {len(given)} vectors for {count} texts")
        vectors: NDArray[Any] = np.asarray([self._row(each, dimensions) for each in given], np.float64)
        if not np.isfinite(vectors).all():
            raise self._failure("gave a vector with a component that is not a finite number")
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if (lengths <= _SHORTEST).any():
            raise self._failure("gave a vector of length 0")
        proper: NDArray[np.float32] = (vectors / lengths).astype(np.float32)
        return proper

    def _row(self, vector: Sequence[float], dimensions: int) -> NDArray[np.float64]:
        try:
            row = np.asarray(vector, np.float64)
        except (TypeError, ValueError) as error:
            raise self._failure(f"gave something that is not a vector ({error})") from error
        if row.shape != (dimensions,):
            raise self._failure(f"gave a vector of {row.size} dimensions where {dimensions} are declared")
        return row

    def _failure(self, what: str) -> EmbeddingFailed:
        return EmbeddingFailed(f"the embedding model {self.provider.model!r} {what}.", provider=self.provider.model)


@dataclass(frozen=True)
class _Kind:
    base_url: str
    model: str
    keys: tuple[str, ...]


_KINDS = {
    "openai-compatible": _Kind(
        "https://openrouter.ai/api/v1", "openai/text-embedding-3-large", ("OPENROUTER_API_KEY", "OPENAI_API_KEY")
    ),
    "openai": _Kind("https://api.openai.com/v1", "text-embedding-3-large", ("OPENAI_API_KEY",)),
    "gemini": _Kind("https://generativelanguage.googleapis.com/v1beta", "gemini-embedding-2", ("GEMINI_API_KEY",)),
}


def from_environment(world: World) -> Embeddings:
    """The configured provider. Raises `EmbeddingFailed`, which names the variable, if its API key is not set."""
    environ = world.environ
    name = environ.get("OMNIGRAPH_EMBED_PROVIDER") or "openai-compatible"
    if name == "mock" or _is_on(environ.get("OMNIGRAPH_EMBEDDINGS_MOCK")):
        return Embeddings(Mock())
    if name not in _KINDS:
        raise InvalidInput(f"OMNIGRAPH_EMBED_PROVIDER is {name!r}; it can be {', '.join(_KINDS)} or mock.")
    return Embeddings(_provider(name, environ))


def _provider(name: str, environ: Mapping[str, str]) -> Provider:
    kind = _KINDS[name]
    key = next((environ[each] for each in kind.keys if environ.get(each)), None)
    if key is None:
        wanted = " or ".join(kind.keys)
        raise EmbeddingFailed(f"{wanted} is required for the {name} embedding provider.", provider=name)
    base_url = environ.get("OMNIGRAPH_EMBED_BASE_URL") or kind.base_url
    model = environ.get("OMNIGRAPH_EMBED_MODEL") or kind.model
    if name == "gemini":
        return Gemini(key, model, base_url, _patience(environ))
    return OpenAICompatible(base_url, model, key, _patience(environ))


def _patience(environ: Mapping[str, str]) -> Patience:
    return Patience(
        attempts=int(_number(environ, "RETRY_ATTEMPTS", USUAL.attempts)),
        backoff=_number(environ, "RETRY_BACKOFF_MS", USUAL.backoff * 1_000) / 1_000,
        timeout=_number(environ, "TIMEOUT_MS", USUAL.timeout * 1_000) / 1_000,
        deadline=_number(environ, "DEADLINE_MS", USUAL.deadline * 1_000) / 1_000,
    )


def _number(environ: Mapping[str, str], name: str, usual: float) -> float:
    text = environ.get(f"OMNIGRAPH_EMBED_{name}", "")
    if not text:
        return usual
    if not text.isdigit():
        raise InvalidInput(f"OMNIGRAPH_EMBED_{name} is {text!r}; it must be a whole number.")
    return float(text)


def _is_on(text: str | None) -> bool:
    return text is not None and text.strip().lower() not in ("", "0", "false")
