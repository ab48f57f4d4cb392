"""Computes distances between vectors, and finds the nearest rows of a table.

The metric is that of the property: L2 (squared), cosine or dot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import pyarrow as pa

from omnigraph.errors import InvalidInput
from omnigraph.kernels.row_address import ROW_NUMBER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from omnigraph.catalog.catalog import Property
    from omnigraph.catalog.indexes import Metric
    from omnigraph.query.columns.table_columns import Int64Array, TableRows
    from omnigraph.storage.filters.model import Filter

# Turns a text into a vector for a property.
Embedder: TypeAlias = Callable[[str, "Property"], Sequence[float]]

# Partitions of an IVF index that are probed.
_PROBES = 32


def vector_of(value: object, declared: Property, embed: Embedder | None) -> NDArray[np.float32] | None:
    """The search vector: as given, or the embedding of a text; None for null."""
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
    table: TableRows, column: str, metric: Metric, vector: NDArray[np.float32] | None, rows: Int64Array
) -> NDArray[np.float64]:
    """The distance of each row's vector to the search vector, NaN where the row has none."""
    if vector is None:
        return np.full(len(rows), np.nan)
    values: Any = table.values([column], rows)[column]
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    flat = values.drop_null().flatten().to_numpy(zero_copy_only=False)
    result = np.full(len(rows), np.nan)
    result[valid] = _measured(flat.reshape(-1, len(vector)), vector, metric)
    return result


def distances_between(left: Any, right: Any, metric: Metric) -> NDArray[np.float64]:
    """The distance between the two vectors of each pair, NaN where one is missing."""
    valid = (left.is_valid().to_numpy(zero_copy_only=False)) & (right.is_valid().to_numpy(zero_copy_only=False))
    result = np.full(len(valid), np.nan)
    if valid.any():
        result[valid] = _measured(_matrix(left, valid), _matrix(right, valid), metric)
    return result


def _matrix(vectors: Any, valid: NDArray[np.bool_]) -> NDArray[np.float32]:
    flat = vectors.filter(pa.array(valid)).flatten().to_numpy(zero_copy_only=False)
    matrix: NDArray[np.float32] = flat.reshape(int(valid.sum()), -1)
    return matrix


def _measured(vectors: NDArray[np.float32], vector: NDArray[np.float32], metric: Metric) -> NDArray[np.float64]:
    """Distances to one vector, or row by row to a matrix of vectors."""
    if metric == "L2":
        squares: NDArray[np.float64] = np.square(vectors - vector).sum(axis=1, dtype=np.float64)
        return squares
    left, right = vectors.astype(np.float64), vector.astype(np.float64)
    products: NDArray[np.float64] = left @ right if right.ndim == 1 else np.einsum("ij,ij->i", left, right)
    if metric == "dot":
        return 1 - products
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        angles: NDArray[np.float64] = 1 - products / lengths
    return angles


def nearest_rows(
    table: TableRows,
    column: str,
    metric: Metric,
    vector: NDArray[np.float32],
    most: int,
    where: Filter | None,
    *,
    exact: bool = False,
) -> tuple[Int64Array, NDArray[np.float64]]:
    """The nearest rows of those that a filter selects, and their distances."""
    query = {"column": column, "q": vector, "k": most, "metric": metric, "use_index": not exact, "nprobes": _PROBES}
    found = table.search_store(["_distance"], where, nearest=query)
    distances_found = found["_distance"].to_numpy().astype(np.float64)
    return found[ROW_NUMBER].to_numpy().astype(np.int64), distances_found
