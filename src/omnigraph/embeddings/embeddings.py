"""Asking a provider for vectors: in batches, each text once, and nothing believed that is not a proper vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from omnigraph.embeddings.providers import Ask
from omnigraph.errors import EmbeddingFailed, InvalidInput
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from omnigraph.embeddings.providers import Provider, Purpose
    from omnigraph.language.schema.catalog import Property
    from omnigraph.world import World

_SHORTEST = 1e-12


@dataclass(frozen=True)
class Embeddings:
    """A provider, and how many texts one request to it has. Vectors come back with length 1."""

    provider: Provider
    batch_size: int = 64

    def vectors(
        self, texts: Sequence[str], *, dimensions: int, purpose: Purpose = "document", world: World = REAL
    ) -> NDArray[np.float32]:
        """One row for each text. A text that comes twice is asked for once."""
        asked = list(dict.fromkeys(texts))
        found = np.empty((len(asked), dimensions), np.float32)
        for at in range(0, len(asked), self.batch_size):
            batch = tuple(asked[at : at + self.batch_size])
            given = self.provider.embed(Ask(batch, dimensions, purpose, world))
            found[at : at + len(batch)] = self._proper(given, len(batch), dimensions)
        places = {text: row for row, text in enumerate(asked)}
        return found[[places[text] for text in texts]]

    def of_property(
        self, texts: Sequence[str], declared: Property, *, purpose: Purpose = "document", world: World = REAL
    ) -> NDArray[np.float32]:
        """The vectors for a Vector property; its model must be the provider's, if it names one."""
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
