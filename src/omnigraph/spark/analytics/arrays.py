"""A snapshot as NumPy arrays, for graphs whose vertices fit in the memory of a task; no row passes through the JVM.

Vertices have the same numbers as in `topology`: their positions in the order of type and id. Tasks read ids and turn
edges into pairs of numbers; each block, all edges into some vertices, is one row of packed arrays. A round of an
algorithm is one job that combines the blocks with one array of values and returns one array.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.spark.analytics.edge_blocks import blocks_of
from omnigraph.spark.analytics.topology import materialize
from omnigraph.spark.runner import errors_of_tasks, one_task_each
from omnigraph.tasks.runner import BYTES, INT, TEXT
from omnigraph.tasks.table_scan import TableScan, read_scan, tasks_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from omnigraph.catalog.catalog import EdgeType
    from omnigraph.spark.analytics.edge_blocks import Packet
    from omnigraph.spark.analytics.topology import Ground

# A task holds all ids and a few numbers for each vertex.
MOST_VERTICES = 5_000_000
_SETTING = "spark.omnigraph.verticesInArrays"
_RANKS = pa.schema([("type", INT), ("ranks", BYTES)])


def fits(ground: Ground, kinds: Sequence[EdgeType]) -> bool:
    """Whether the vertices of these edge types are few enough for arrays."""
    most = int(ground.session.conf.get(_SETTING, None) or MOST_VERTICES)
    return sum(ground.snapshot[f"node:{each}"].row_count for each in endpoint_types(kinds)) <= most


def endpoint_types(kinds: Sequence[EdgeType]) -> list[str]:
    """The endpoint types of these edge types, sorted."""
    return sorted({end for kind in kinds for end in (kind.source, kind.target)})


@dataclass(frozen=True)
class NodeTable:
    """The nodes of one type. `ranks` holds, in table order, the position of each node in the order of ids."""

    type: str
    tasks: tuple[TableScan, ...]
    first: int
    ranks: NDArray[np.int32] = field(repr=False)

    def ids(self) -> pa.Array[Any]:
        """All ids in table order."""
        return _ids(self.tasks)

    def vertex_numbers(self, wanted: pa.ChunkedArray[Any]) -> NDArray[np.int32]:
        """The vertex numbers of ids; -1 for an unknown id."""
        indices = pc.index_in(wanted, value_set=self.ids()).fill_null(-1).to_numpy()
        found: NDArray[np.int32] = np.where(indices < 0, -1, self.ranks[indices] + self.first).astype(np.int32)
        return found


@dataclass(frozen=True)
class Arrays:
    """The numbered vertices of some edge types, and their edges in blocks."""

    ground: Ground
    kinds: tuple[EdgeType, ...]

    @cached_property
    def nodes(self) -> tuple[NodeTable, ...]:
        """The node tables, sorted by type. One task sorts the ids of each."""
        types = endpoint_types(self.kinds)
        tasks = [self._tasks(f"node:{each}", "id") for each in types]

        def work(number: int) -> Iterator[pa.RecordBatch]:
            yield pa.record_batch([[number], [_ranks(_ids(tasks[number])).tobytes()]], schema=_RANKS)

        with errors_of_tasks():
            results: Any = one_task_each(self.ground.session, range(len(types)), work, _RANKS).toArrow()
        ranks = {row["type"]: np.frombuffer(row["ranks"], np.int32) for row in results.to_pylist()}
        firsts = np.cumsum([0, *(len(ranks[number]) for number in range(len(types)))])
        return tuple(
            NodeTable(each, tasks[number], int(firsts[number]), ranks[number]) for number, each in enumerate(types)
        )

    @property
    def count(self) -> int:
        """The number of vertices."""
        return sum(len(each.ranks) for each in self.nodes)

    def blocks(self, *, both_ways: bool = False) -> DataFrame:
        """The edges as built by `blocks_of`. `both_ways`: every distinct adjacent pair, once in each direction."""
        nodes = {each.type: each for each in self.nodes}
        items = [(kind, task) for kind in self.kinds for task in self._tasks(kind.table_key, "src", "dst")]
        rows = sum(self.ground.snapshot[kind.table_key].row_count for kind in self.kinds)

        def work(item: tuple[EdgeType, TableScan]) -> Iterator[Packet]:
            kind, task = item
            table = pa.Table.from_batches(list(read_scan(task)), task.schema())
            src, dst = (
                nodes[end].vertex_numbers(table.column(name))
                for end, name in ((kind.source, "src"), (kind.target, "dst"))
            )
            there = (src >= 0) & (dst >= 0)
            yield src[there], dst[there]

        return blocks_of(self.ground.session, items, work, rows, both_ways=both_ways)

    def named(self, column: str, values: NDArray[Any]) -> DataFrame:
        """A frame of type, id and the value of every vertex; `values` is indexed by vertex number."""
        kind = pa.from_numpy_dtype(values.dtype)
        schema = pa.schema(
            [
                pa.field("type", TEXT, nullable=False),
                pa.field("id", TEXT, nullable=False),
                pa.field(column, kind, nullable=False),
            ]
        )
        items = [(each, number) for each in self.nodes for number in range(len(each.tasks))]

        def work(item: tuple[NodeTable, int]) -> Iterator[pa.RecordBatch]:
            table, number = item
            start = sum(_rows(each) for each in table.tasks[:number])
            for batch in read_scan(table.tasks[number]):
                mine = table.ranks[start : start + batch.num_rows] + table.first
                start += batch.num_rows
                columns = [pa.array([table.type] * batch.num_rows), batch.column("id"), pa.array(values[mine])]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

        return materialize(one_task_each(self.ground.session, items, work, schema))

    def _tasks(self, table_key: str, *columns: str) -> tuple[TableScan, ...]:
        return tuple(tasks_of(TableScan(self.ground.location, self.ground.snapshot[table_key].pin, columns)))


def _ids(tasks: Sequence[TableScan]) -> pa.Array[Any]:
    batches = [batch.column("id") for task in tasks for batch in read_scan(task)]
    return pa.concat_arrays(batches) if batches else pa.array([], TEXT)


def _ranks(ids: pa.Array[Any]) -> NDArray[np.int32]:
    ranks = np.empty(len(ids), np.int32)
    ranks[pc.sort_indices(ids).to_numpy()] = np.arange(len(ids), dtype=np.int32)
    return ranks


def _rows(task: TableScan) -> int:
    table = task.table()
    return sum(int(table.fragment(each).num_rows) for each in task.fragments or ())
