"""Loads as tests want them: text or tables in, rows out, with a replayable world."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from omnigraph.language.schema.compile import compile_schema
from omnigraph.load.ndjson import read_permissive, read_strict
from omnigraph.load.operation import prepare_load
from omnigraph.load.plan import plan_load
from omnigraph.load.read import read_input
from omnigraph.load.rows import gather_rows
from seeded_world import SeededWorld

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.load.operation import LoadSummary
    from omnigraph.values.batches import Mode
    from transaction.small_graph import SmallGraph

SOCIAL = """
node Person { name: String @key  age: I32?  city: String @default("Paris") }
node Note { text: String? }
edge Knows: Person -> Person { since: Date? }
edge Likes: Person -> Note
"""


def strict(text: str | bytes, schema: str = SOCIAL, *, source: str = "") -> dict[str, pa.Table]:
    """The tables of strict NDJSON, by table key."""
    return _tables(read_strict(_stream(text), compile_schema(schema), source=source), strict=True)


def permissive(text: str | bytes, schema: str = SOCIAL) -> dict[str, pa.Table]:
    """The tables of permissive NDJSON, by table key."""
    return _tables(read_permissive(_stream(text), compile_schema(schema)), strict=False)


def read(source: object, schema: str = SOCIAL, *, strict: bool = True) -> dict[str, pa.Table]:
    """The tables of anything that can be loaded, by table key."""
    catalog, world = compile_schema(schema), SeededWorld()
    plan = plan_load(source, catalog, world)
    batches = (batch for each in plan.inputs for batch in read_input(each, catalog, world, strict=strict))
    rows = gather_rows(batches, world, named=plan.types, strict=strict)
    return {key: each.table for key, each in rows.items()}


def load(graph: SmallGraph, source: object, mode: Mode = "append", *, strict: bool = True) -> LoadSummary:
    """Load into a graph, validated and committed."""
    changes, summary = prepare_load(graph.catalog, graph.view(), source, mode, SeededWorld(), strict=strict)
    graph.apply(changes)
    return summary


def rows(table: pa.Table, *columns: str) -> list[Any]:
    """The rows of some columns: bare values for one, tuples for several."""
    picked = [table.column(name).to_pylist() for name in columns]
    return picked[0] if len(picked) == 1 else list(zip(*picked, strict=True))


def _stream(text: str | bytes) -> io.BytesIO:
    return io.BytesIO(text.encode() if isinstance(text, str) else text)


def _tables(batches: Any, *, strict: bool) -> dict[str, pa.Table]:
    return {key: each.table for key, each in gather_rows(batches, SeededWorld(), strict=strict).items()}
