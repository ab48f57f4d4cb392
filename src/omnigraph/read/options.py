"""How a read may go about its work. None of this changes the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from omnigraph.language.schema.catalog import Property

    # Gives the vector of a text, for the property that it is compared with.
    Embedder = Callable[[str, Property], Sequence[float]]

TraversalMode = Literal["auto", "indexed", "csr"]


@dataclass(frozen=True)
class ReadOptions:
    """Limits and choices of one read.

    `traversal` forces lookups by index or adjacency in memory; `auto` decides by counts. `memory_limit` is in bytes;
    beyond it sorting and grouping go to `temp_directory`, and what cannot go there fails. `cancelled` is asked now and
    then whether to stop. `exact_search`: compare every vector, where an index of a large table would look at the
    likeliest ones. `embed` turns a String given to `nearest()` into a vector.
    """

    traversal: TraversalMode = "auto"
    indexed_frontier: int = 1_024
    indexed_hops: int = 6
    timeout: float | None = None
    cancelled: Callable[[], bool] | None = None
    memory_limit: int | None = None
    temp_directory: str | None = None
    threads: int | None = None
    # How many rows of a match are held at once before the next step takes them.
    batch_rows: int = 2_000_000
    exact_search: bool = False
    embed: Embedder | None = None


DEFAULT_OPTIONS = ReadOptions()
