"""The topology of a snapshot as Spark frames: numbered vertices, and edges as pairs of vertex numbers.

Vertices are numbered in the order of type and id. Numbers depend only on the nodes, not on the layout of tables, so
equal graphs give equal results. Only ids are read and shuffled, and nothing is collected on the driver. Iterative
algorithms checkpoint each round, so that the next one starts from rows and not from a longer plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from typing import TYPE_CHECKING

from pyspark.sql import functions as f
from pyspark.sql.utils import is_remote

from omnigraph.errors import InvalidInput
from omnigraph.spark.runner import one_task_each
from omnigraph.tasks.table_scan import TableScan, read_scan, tasks_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, Row, SparkSession

    from omnigraph.catalog.catalog import Catalog, EdgeType
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.storage.objects.location import Location


def materialize(frame: DataFrame) -> DataFrame:
    """Checkpoint a frame: in the session's checkpoint directory if it has one, where the rows survive the loss of an
    executor, else on the executors.
    """
    return frame.checkpoint() if _has_directory(frame.sparkSession) else frame.localCheckpoint()


def totals(frame: DataFrame, **sums: Column) -> Row:
    """One row of aggregates over a whole frame, by name."""
    return _only_row(frame.agg(*(each.alias(name) for name, each in sums.items())).collect())


def partitions_of(frame: DataFrame) -> int:
    """The number of shuffle partitions of the session."""
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
    """`vertices` has v, type and id, with v numbered from 0 without gaps; `edges` has src and dst as vertex numbers,
    with parallel edges repeated.
    """

    vertices: DataFrame
    edges: DataFrame
    count: int

    def named(self, values: DataFrame, *columns: str) -> DataFrame:
        """Left join the vertices with a frame keyed by v; columns are null for vertices without a row."""
        joined = self.vertices.join(values, "v", "left")
        return joined.select("type", "id", *columns)

    def neighbours(self) -> DataFrame:
        """The distinct undirected pairs of different adjacent vertices, with a < b."""
        ordered = self.edges.select(f.least("src", "dst").alias("a"), f.greatest("src", "dst").alias("b"))
        return materialize(ordered.where("a < b").distinct())


@dataclass(frozen=True)
class Ground:
    """A snapshot, and the session to compute on it."""

    session: SparkSession
    location: Location
    snapshot: Snapshot
    catalog: Catalog

    def topology(self, edges: Sequence[str] | None) -> Topology:
        """The topology of some edge types; None means all. Vertices are all nodes of the endpoint types."""
        kinds = self.edge_types(edges)
        node_types = sorted({end for kind in kinds for end in (kind.source, kind.target)})
        offsets, vertices = _numbered(reduce(_union, (self._nodes(end) for end in node_types)))
        joined = reduce(_union, (self._pairs(kind, vertices) for kind in kinds))
        pairs = materialize(joined.repartition(partitions_of(joined), "src"))
        return Topology(vertices, pairs, offsets)

    def columns_of(self, table_key: str, *columns: str) -> DataFrame:
        """Read columns of a table as a frame."""
        scan = TableScan(self.location, self.snapshot[table_key].pin, columns)
        return one_task_each(self.session, tasks_of(scan), read_scan, scan.schema())

    def edge_types(self, names: Sequence[str] | None) -> list[EdgeType]:
        """The edge types of these names; None means all."""
        if isinstance(names, str):
            raise InvalidInput(f"edges is a list of edge types: write [{names!r}].")
        edge_types = self.catalog.edges
        wanted = list(edge_types) if names is None else [self._edge_type(each) for each in names]
        if not wanted:
            raise InvalidInput("there are no edges to follow: name at least one edge type.")
        return [edge_types[name] for name in dict.fromkeys(wanted)]

    def _edge_type(self, name: str) -> str:
        return self.catalog.resolve_type(f"edge:{name.removeprefix('edge:')}").name

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
    """The number of nodes, and the nodes numbered in the order of type and id.

    Nodes are range-partitioned and sorted within partitions; the driver only collects the partition sizes, which give
    each partition its first number.
    """
    ranges = nodes.repartitionByRange(partitions_of(nodes), "type", "id").sortWithinPartitions("type", "id")
    ordered = materialize(ranges.select("type", "id", f.monotonically_increasing_id().alias("place")))
    partition = f.shiftright("place", _PARTITION_BITS)
    counted: dict[int, int] = dict(ordered.groupBy(partition.alias("part")).count().collect())
    counts = [counted.get(number, 0) for number in range(max(counted, default=0) + 1)]
    firsts = f.array(*(f.lit(first).cast("bigint") for first in accumulate(counts[:-1], initial=0)))
    row = f.col("place").bitwiseAND(f.lit((1 << _PARTITION_BITS) - 1))
    number = f.element_at(firsts, (partition + 1).cast("int")) + row
    return sum(counts), ordered.select(number.alias("v"), "type", "id")
