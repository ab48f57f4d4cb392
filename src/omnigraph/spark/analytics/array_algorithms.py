"""PageRank, components and label propagation over edge blocks, bit for bit equal to `frame_algorithms`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import functions as f

from omnigraph.spark.analytics.edge_blocks import answers, batches, degrees_of
from omnigraph.spark.analytics.frame_algorithms import WHOLE, everyones_share, require_damping

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from omnigraph.spark.analytics.arrays import Arrays
    from omnigraph.spark.analytics.edge_blocks import EdgeBlock

    VertexNumbers = NDArray[np.int32]

log = logging.getLogger(__name__)
_LOW = 0xFFFF_FFFF


def page_rank(arrays: Arrays, *, damping: float, tolerance: float, max_iterations: int) -> DataFrame:
    """type, id and rank, computed in integers like `frame_algorithms.page_rank`."""
    require_damping(damping)
    count = arrays.count
    if not count:
        return arrays.named("rank", np.zeros(0))
    blocks = arrays.blocks()
    out = degrees_of(blocks, count)
    rank = np.full(count, WHOLE // count, np.int64)
    for _ in range(max_iterations):
        everyones = everyones_share(damping, int(rank[out == 0].sum()), count)
        received = _received(blocks, rank // np.maximum(out, 1))
        was, rank = rank, (damping * received).astype(np.int64) + everyones
        if int(np.abs(rank - was).sum()) < tolerance * WHOLE:
            break
    else:
        log.warning("the ranks still moved by more than %g after %d rounds", tolerance, max_iterations)
    return arrays.named("rank", rank / float(rank.sum()))


def connected_components(arrays: Arrays) -> DataFrame:
    """type, id and component, the smallest vertex number of the component. Edges are undirected."""
    blocks, labels = arrays.blocks(), np.arange(arrays.count, dtype=np.int32)
    total, first, some = _how_many(blocks), 0, 1
    while first < total:
        # Double the blocks per wave: the first ones join most vertices, so later ones return few pairs.
        wave = blocks.where(f.col("block").between(first, first + some - 1))
        labels = joined(labels, *_forest(wave, labels))
        first, some = first + some, some * 2
    return arrays.named("component", labels.astype(np.int64))


def label_propagation(arrays: Arrays, *, max_iterations: int) -> DataFrame:
    """type, id and community: each round a vertex takes the most frequent label around it, the smallest on a tie."""
    blocks, labels = arrays.blocks(both_ways=True), np.arange(arrays.count, dtype=np.int32)
    for _ in range(max_iterations):
        now = _voted(blocks, labels)
        changed = bool((now != labels).any())
        labels = now
        if not changed:
            break
    else:
        log.warning("labels still changed after %d rounds", max_iterations)
    return arrays.named("community", labels.astype(np.int64))


def _received(blocks: DataFrame, given: NDArray[np.int64]) -> NDArray[np.int64]:
    def answer(block: EdgeBlock) -> tuple[VertexNumbers, NDArray[Any]]:
        if not len(block.targets):
            return block.targets, block.starts
        return block.targets, np.add.reduceat(given[block.sources], block.starts)

    return answers(blocks, answer, np.zeros(len(given), np.int64))


def _how_many(blocks: DataFrame) -> int:
    (row,) = blocks.agg(f.max("block").alias("last")).collect()
    return 0 if row["last"] is None else int(row["last"]) + 1


def _forest(blocks: DataFrame, labels: VertexNumbers) -> tuple[VertexNumbers, VertexNumbers]:
    """Pairs of labels that edges of the blocks join; per block a spanning forest, so fewer pairs than labels."""

    def answer(block: EdgeBlock) -> tuple[VertexNumbers, VertexNumbers]:
        one, other = labels[block.sources], labels[block.repeated_targets()]
        apart = one != other
        vertices, indices = np.unique(np.concatenate([one[apart], other[apart]]), return_inverse=True)
        half = len(indices) // 2
        roots = joined(np.arange(len(vertices), dtype=np.int32), indices[:half], indices[half:])
        moved = roots != np.arange(len(vertices))
        return vertices[moved], vertices[roots[moved]]

    found = list(batches(blocks, answer, np.dtype(np.int32)))
    ones, others = ([each[side] for each in found] for side in (0, 1))
    nothing = np.empty(0, np.int32)
    return np.concatenate([nothing, *ones]), np.concatenate([nothing, *others])


def joined(labels: VertexNumbers, one: NDArray[Any], other: NDArray[Any]) -> VertexNumbers:
    """Union the label pairs: every label becomes the smallest of its component."""
    roots = np.arange(len(labels), dtype=np.int32)
    while len(one):
        a, b = roots[one], roots[other]
        apart = a != b
        one, other, a, b = one[apart], other[apart], a[apart], b[apart]
        np.minimum.at(roots, np.maximum(a, b), np.minimum(a, b))
        roots = _compressed(roots)
    return roots[labels]


def _compressed(roots: VertexNumbers) -> VertexNumbers:
    while True:
        further = roots[roots]
        if np.array_equal(further, roots):
            return roots
        roots = further


def _voted(blocks: DataFrame, labels: VertexNumbers) -> VertexNumbers:
    def answer(block: EdgeBlock) -> tuple[VertexNumbers, VertexNumbers]:
        return block.targets, _winners(block, labels)

    return answers(blocks, answer, labels)


def _winners(block: EdgeBlock, labels: VertexNumbers) -> VertexNumbers:
    """For each target, the most frequent label among its sources and itself, the smallest on a tie."""
    indices = np.arange(len(block.targets), dtype=np.int64)
    heard = np.repeat(indices, np.diff(block.starts, append=len(block.sources)))
    votes = np.concatenate([(heard << 32) | labels[block.sources], (indices << 32) | labels[block.targets]])
    each, counts = np.unique(votes, return_counts=True)
    target = each >> 32
    firsts = np.flatnonzero(np.diff(target, prepend=-1))
    most = np.maximum.reduceat(counts, firsts) if len(counts) else counts
    winning = np.flatnonzero(counts == most[target])
    first_of_each = np.unique(target[winning], return_index=True)[1]
    return (each[winning[first_of_each]] & _LOW).astype(np.int32)
