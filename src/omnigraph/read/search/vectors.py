"""Distances between vectors, and the nearest ones. The metric is the property's: L2 (squared), cosine or dot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from omnigraph.errors import InvalidInput
from omnigraph.read.execute.table_rows import ROW_NUMBER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from omnigraph.language.schema.catalog import Property
    from omnigraph.read.execute.table_rows import Numbers, TableRows
    from omnigraph.read.options import Embedder
    from omnigraph.store.filters import Filter

Metric = Literal["L2", "cosine", "dot"]
_METRICS = {"l2": "L2", "euclidean": "L2", "cosine": "cosine", "dot": "dot"}


def metric_of(declared: Property) -> Metric:
    """The metric that the schema chose with `@metric(cosine)`, or L2."""
    for annotation in declared.annotations:
        if annotation.name == "metric":
            return cast("Metric", _METRICS.get((annotation.value or "").lower(), "L2"))
    return "L2"


def vector_of(value: object, declared: Property, embed: Embedder | None) -> NDArray[np.float32] | None:
    """The vector that is asked for: as given, or the embedding of a text."""
    if value is None:
        return None
    if not isinstance(value, str):
        return np.asarray(cast("Sequence[float]", value), np.float32)
    if embed is None:
        raise InvalidInput(
            f"nearest() on {declared.name} got a text, and no embedding provider is set up: set OPENROUTER_API_KEY or "
            "OPENAI_API_KEY, or pass a vector."
        )
    vector = np.asarray(embed(value, declared), np.float32)
    if len(vector) != declared.type.dimensions:
        raise InvalidInput(f"the embedding has {len(vector)} dimensions, and {declared.name} has {declared.type}")
    return vector


def distances(
    table: TableRows, column: str, metric: Metric, vector: NDArray[np.float32] | None, rows: Numbers
) -> NDArray[np.float64]:
    """The distance of each row's vector, NaN where it has none."""
    if vector is None:
        return np.full(len(rows), np.nan)
    values: Any = table.values([column], rows)[column]
    known = values.is_valid().to_numpy(zero_copy_only=False)
    flat = values.drop_null().flatten().to_numpy(zero_copy_only=False)
    result = np.full(len(rows), np.nan)
    result[known] = _measured(flat.reshape(-1, len(vector)), vector, metric)
    return result


def _measured(vectors: NDArray[np.float32], vector: NDArray[np.float32], metric: Metric) -> NDArray[np.float64]:
    if metric == "L2":
        squares: NDArray[np.float64] = np.square(vectors - vector).sum(axis=1, dtype=np.float64)
        return squares
    products = vectors.astype(np.float64) @ vector.astype(np.float64)
    if metric == "dot":
        return 1 - products
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1) * np.linalg.norm(vector.astype(np.float64))
    with np.errstate(invalid="ignore", divide="ignore"):
        angles: NDArray[np.float64] = 1 - products / lengths
    return angles


def nearest_rows(
    table: TableRows, column: str, metric: Metric, vector: NDArray[np.float32], most: int, where: Filter | None
) -> Numbers:
    """The rows whose vectors are nearest, of those that a filter selects."""
    query = {"column": column, "q": vector, "k": most, "metric": metric, "use_index": True}
    found = table.search_store(["_distance"], where, nearest=query)
    return found[ROW_NUMBER].to_numpy().astype(np.int64)
