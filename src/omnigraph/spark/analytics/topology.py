"""A snapshot as numbers: vertices counted in the order of type and id, edges as pairs of those numbers.

The numbers follow from the nodes alone, not from how tables are laid out, so that equal graphs give equal results.
Only ids are read and shuffled; nothing is collected to the driver.

Work in rounds: each round's result is settled, so that the next one starts from rows and not from a longer plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from typing import TYPE_CHECKING

from pyspark.sql import functions as f
from pyspark.sql.utils import is_remote

from omnigraph.errors import InvalidInput
from omnigraph.load.plan import named_type
from omnigraph.spark.runner import one_task_each
from omnigraph.tasks.table_scan import TableScan, read_scan, tasks_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, Row, SparkSession

    from omnigraph.catalog.catalog import Catalog, EdgeType
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.storage.objects.location import Location


def settle(frame: DataFrame) -> DataFrame:
    """Compute a frame now and keep its rows: on the executors, or, where the session has a checkpoint directory,
    there, where the loss of an executor cannot take them.
    """
    return frame.checkpoint() if _has_directory(frame.sparkSession) else frame.localCheckpoint()


def totals(frame: DataFrame, **sums: Column) -> Row:
    """One row of aggregates over a whole frame, by name."""
    return _only_row(frame.agg(*(each.alias(name) for name, each in sums.items())).collect())


def partitions_of(frame: DataFrame) -> int:
    """How many partitions a shuffle of this session makes."""
    return int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or "200")


def _has_directory(session: SparkSession) -> bool:
    if is_remote():
        return bool(session.conf.get("spark.checkpoint.dir", None))
    return session.sparkContext.getCheckpointDir() is not None


def _only_row(rows: Sequence[Row]) -> Row:
    (row,) = rows
    return row


# `monotonically_increasing_id` has the row's number within its partition in the lower bits.
_PARTITION_BITS = 33


@dataclass(frozen=True)
class Topology:
    """`vertices` has v, type and id, and numbers v from 0 without holes; `edges` has src and dst, which are such
    numbers, and an edge as often as the graph has it.
    """

    vertices: DataFrame
    edges: DataFrame
    count: int

    def named(self, values: DataFrame, *columns: str) -> DataFrame:
        """The columns of a frame that has v, with the type and id of every vertex; null where it has no row."""
        joined = self.vertices.join(values, "v", "left")
        return joined.select("type", "id", *columns)

    def neighbours(self) -> DataFrame:
        """Every pair of different vertices with an edge between them, whichever way, once: a before b."""
        ordered = self.edges.select(f.least("src", "dst").alias("a"), f.greatest("src", "dst").alias("b"))
        return settle(ordered.where("a < b").distinct())


@dataclass(frozen=True)
class Ground:
    """A state of a graph, and the session to work on it with."""

    session: SparkSession
    location: Location
    snapshot: Snapshot
    catalog: Catalog

    def topology(self, edges: Sequence[str] | None) -> Topology:
        """The vertices and edges of some edge types; None means all. Vertices are all nodes of the types they join."""
        kinds = self.edge_types(edges)
        ends = sorted({end for kind in kinds for end in (kind.source, kind.target)})
        offsets, vertices = _numbered(reduce(_union, (self._nodes(end) for end in ends)))
        joined = reduce(_union, (self._pairs(kind, vertices) for kind in kinds))
        pairs = settle(joined.repartition(partitions_of(joined), "src"))
        return Topology(vertices, pairs, offsets)

    def columns_of(self, table_key: str, *columns: str) -> DataFrame:
        """Some columns of a table as a frame."""
        scan = TableScan(self.location, self.snapshot[table_key].pin, columns)
        return one_task_each(self.session, tasks_of(scan), read_scan, scan.schema())

    def edge_types(self, names: Sequence[str] | None) -> list[EdgeType]:
        """The edge types of these names; None means all."""
        if isinstance(names, str):
            raise InvalidInput(f"edges is a list of edge types: write [{names!r}].")
        known = self.catalog.edges
        wanted = list(known) if names is None else [named_type(f"edge:{each}", self.catalog).name for each in names]
        if not wanted:
            raise InvalidInput("there are no edges to follow: name at least one edge type.")
        return [known[name] for name in dict.fromkeys(wanted)]

    def _nodes(self, node_type: str) -> DataFrame:
        return self.columns_of(f"node:{node_type}", "id").select(f.lit(node_type).alias("type"), "id")

    def _pairs(self, kind: EdgeType, vertices: DataFrame) -> DataFrame:
        ids = self.columns_of(kind.table_key, "src", "dst")
        begun = ids.join(_end(vertices, kind.source, "src"), "src")
        ended = begun.join(_end(vertices, kind.target, "dst"), "dst")
        return ended.select(f.col("from_v").alias("src"), f.col("to_v").alias("dst"))


def _end(vertices: DataFrame, node_type: str, end: str) -> DataFrame:
    number = "from_v" if end == "src" else "to_v"
    return vertices.where(f.col("type") == node_type).select(f.col("id").alias(end), f.col("v").alias(number))


def _union(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.unionByName(other)


def _numbered(nodes: DataFrame) -> tuple[int, DataFrame]:
    """How many nodes there are, and each with its place in the order of type and id.

    Ranges of the order are sorted apart; how many each has, which is all the driver learns, makes places of them.
    """
    ranges = nodes.repartitionByRange(partitions_of(nodes), "type", "id").sortWithinPartitions("type", "id")
    placed = settle(ranges.select("type", "id", f.monotonically_increasing_id().alias("place")))
    part = f.shiftright("place", _PARTITION_BITS)
    counted: dict[int, int] = dict(placed.groupBy(part.alias("part")).count().collect())
    counts = [counted.get(number, 0) for number in range(max(counted, default=0) + 1)]
    firsts = f.array(*(f.lit(first).cast("bigint") for first in accumulate(counts[:-1], initial=0)))
    row = f.col("place").bitwiseAND(f.lit((1 << _PARTITION_BITS) - 1))
    number = f.element_at(firsts, (part + 1).cast("int")) + row
    return sum(counts), placed.select(number.alias("v"), "type", "id")
