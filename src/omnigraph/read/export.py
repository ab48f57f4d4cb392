"""A snapshot as graph NDJSON: the records that a load reads, in one order, so that equal graphs give equal bytes.

Tables in the order of their keys (edges before nodes), rows in the order of their ids. What is exported and loaded into
an empty graph of the same schema is the same graph.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InvalidInput
from omnigraph.language.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.language.suggestion import suggestion
from omnigraph.read.export_values import BlobColumn, json_values
from omnigraph.store.counting import count
from omnigraph.store.lance_errors import lance_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.store.tables import Table, TableStore

ROWS = 8_192
# Up to this a table is sorted in memory; above, only its ids are, and rows are fetched in their order.
SORTED_IN_MEMORY = 256 << 20
_FETCHED_AT_ONCE = 32 << 20
_NARROW_VALUE = 32


def export_records(
    snapshot: Snapshot, tables: TableStore, catalog: Catalog, *, types: Sequence[str] | None = None
) -> Iterator[bytes]:
    """NDJSON in pieces of whole lines. `types` limits it to some node and edge types, named as in a load."""
    for kind in exported_types(catalog, types):
        table = tables.open(snapshot[kind.table_key].pin)
        for batch in ordered_rows(table, kind):
            yield b"".join(record_lines(kind, batch))


def exported_types(catalog: Catalog, names: Sequence[str] | None) -> list[NodeType | EdgeType]:
    """The types to export, in the order of their table keys."""
    known: list[NodeType | EdgeType] = sorted(
        [*catalog.edges.values(), *catalog.nodes.values()], key=lambda each: each.table_key
    )
    if names is None:
        return known
    wanted = {name: [each for each in known if _is_named(each, name)] for name in names}
    for name, found in wanted.items():
        if not found:
            near = suggestion(name, [*catalog.nodes, *catalog.edges], otherwise=".")
            raise InvalidInput(f"the schema has no type {name!r} to export{near}")
    return [each for each in known if any(each in found for found in wanted.values())]


def ordered_rows(table: Table, kind: NodeType | EdgeType) -> Iterator[pa.RecordBatch]:
    """Rows in the order of their ids, as a stream; blobs are texts, as in records."""
    blobs = [name for name, each in kind.properties.items() if each.type.scalar == "Blob"]
    rows = table.count_rows()
    if not rows:
        return
    width = sum(4 * (each.type.dimensions or _NARROW_VALUE // 4) for each in kind.properties.values()) + _NARROW_VALUE
    count("table_scans", table.path)
    with lance_errors(f"exporting {table.path} at version {table.version}"):
        if blobs or rows * width > SORTED_IN_MEMORY:
            yield from _fetched(table, blobs, max(ROWS, _FETCHED_AT_ONCE // width) if not blobs else ROWS // 8)
        else:
            yield from table.dataset.scanner(order_by=["id"], batch_size=ROWS).to_batches()


def piece_rows(table: Table, kind: NodeType | EdgeType, pieces: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """The rows of some neighbouring pieces of a table, as they lie; blobs are texts, as in records."""
    blobs = [name for name, each in kind.properties.items() if each.type.scalar == "Blob"]
    if not blobs:
        yield from table.scan(None, fragments=pieces, batch_size=ROWS)
        return
    first, rows = _positions(table, pieces)
    with lance_errors(f"exporting {table.path} at version {table.version}"):
        for start in range(first, first + rows, ROWS // 8):
            positions = pa.array(range(start, min(start + ROWS // 8, first + rows)), pa.uint64())
            yield from _taken(table, blobs, positions)


def _positions(table: Table, pieces: Sequence[int]) -> tuple[int, int]:
    """Where the rows of some pieces begin among those of the table, and how many they are."""
    counts = {each.fragment_id: each.count_rows() for each in table.dataset.get_fragments()}
    before = takewhile(lambda piece: piece not in pieces, counts)
    return sum(counts[piece] for piece in before), sum(counts[piece] for piece in pieces)


def _is_named(kind: NodeType | EdgeType, name: str) -> bool:
    return name in (kind.name, kind.table_key) or (isinstance(kind, EdgeType) and name.lower() == kind.name.lower())


def _fetched(table: Table, blobs: Sequence[str], step: int) -> Iterator[pa.RecordBatch]:
    ids: Any = table.dataset.to_table(columns=["id"]).column("id")
    order = pc.sort_indices(ids)
    for start in range(0, len(order), step):
        yield from _taken(table, blobs, order.slice(start, step))


def _taken(table: Table, blobs: Sequence[str], positions: Any) -> Iterator[pa.RecordBatch]:
    """The rows at some positions, in their order."""
    rows = table.dataset.take(positions).combine_chunks()
    for name in blobs:
        texts = BlobColumn(table, name, positions.to_pylist()).texts(rows.column(name).combine_chunks())
        rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(texts, pa.string()))
    yield from rows.to_batches(max_chunksize=ROWS)


def record_lines(kind: NodeType | EdgeType, batch: pa.RecordBatch) -> Iterator[bytes]:
    """Rows as lines of graph records, each with its line end; blobs must be texts already."""
    names = ["id", *kind.properties]
    columns = [json_values(batch.column(name), about=f"{kind.name}.{name}") for name in names]
    data = (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
    option = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
    if isinstance(kind, NodeType):
        return (orjson.dumps({"type": kind.name, "data": each}, option=option) for each in data)
    ends = zip(batch.column("src").to_pylist(), batch.column("dst").to_pylist(), data, strict=True)
    return (
        orjson.dumps({"edge": kind.name, "from": src, "to": dst, "data": each}, option=option)
        for src, dst, each in ends
    )
