"""A load as an operation of the commit protocol.

A step of a load, after reading and before validation: vectors are made from the texts that `@embed` names.

A load, prepared: all is read, typed and identified before anything is staged: a bad input changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from omnigraph.catalog.arrow import node_arrow_schema
from omnigraph.catalog.catalog import NodeType
from omnigraph.embeddings.embedder import fill_vectors
from omnigraph.load.plan import LoadPlan, plan_load
from omnigraph.load.read import read_input
from omnigraph.load.rows import InputRows, gather_rows
from omnigraph.transaction.constraints.validate import validate
from omnigraph.transaction.table_writes import writes_of
from omnigraph.transaction.write_set import TableChanges, WriteSet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from omnigraph.catalog.catalog import Catalog, Property
    from omnigraph.embeddings.embedder import Embeddings
    from omnigraph.transaction.read_view import ReadView
    from omnigraph.values.batches import Batch, Mode
    from omnigraph.world import World


def vectors_may_be_missing(catalog: Catalog) -> Catalog:
    """The same types, for reading rows whose vectors are made later: a vector that `@embed` fills is not required."""
    nodes = {
        name: replace(node, properties={key: _relaxed(each) for key, each in node.properties.items()})
        for name, node in catalog.nodes.items()
    }
    return replace(catalog, nodes=nodes)


def rows_with_vectors(batch: Batch, rows: pa.Table, catalog: Catalog, embeddings: Embeddings, world: World) -> pa.Table:
    """The whole rows of a batch, as its table stores them, with the vectors that were missing."""
    return _filled(InputRows(batch.type, rows), catalog, embeddings, world).table


def with_vectors(loaded: LoadedRows, catalog: Catalog, embeddings: Embeddings, world: World) -> LoadedRows:
    """The same rows, each with a vector where it had a text and none. A vector that was given stays."""
    rows = {key: _filled(each, catalog, embeddings, world) for key, each in loaded.rows.items()}
    return replace(loaded, rows=rows)


def _filled(rows: InputRows, catalog: Catalog, embeddings: Embeddings, world: World) -> InputRows:
    if not isinstance(rows.type, NodeType):
        return rows
    kind = catalog.nodes[rows.type.name]
    made = fill_vectors(rows.table, kind, embeddings, world)
    return replace(rows, type=kind, table=pa.Table.from_arrays(made.columns, schema=node_arrow_schema(kind)))


def _relaxed(each: Property) -> Property:
    return each if each.embed_source is None else replace(each, type=replace(each.type, nullable=True))


@dataclass(frozen=True)
class LoadSummary:
    """What a load has read: rows by type name, nodes and edges apart. `bytes` is None when the source does not tell."""

    nodes: Mapping[str, int]
    edges: Mapping[str, int]
    seconds: float
    bytes: int | None
    engine: Literal["local", "spark"] = "local"
    stages: Mapping[str, float] = field(default_factory=dict)
    rejected: Mapping[str, int] = field(default_factory=dict)
    rejects: str | None = None

    @property
    def rows(self) -> int:
        """All rows."""
        return sum(self.nodes.values()) + sum(self.edges.values())

    def as_json(self) -> dict[str, object]:
        """The same as JSON values. `stages` are seconds; `rejected` counts rows set aside, by rule."""
        return {
            "engine": self.engine,
            "rows": self.rows,
            "nodes": dict(self.nodes),
            "edges": dict(self.edges),
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "stages": {name: round(seconds, 3) for name, seconds in self.stages.items()},
            "rejected": dict(self.rejected),
            "rejects": self.rejects,
        }


@dataclass(frozen=True)
class LoadedRows:
    """A source that has been read: whole rows by table key, ready to be prepared for any view of the graph."""

    rows: Mapping[str, InputRows]
    summary: LoadSummary


def read_load(catalog: Catalog, source: object, world: World, *, strict: bool = True) -> LoadedRows:
    """Read a source once and for all. `source` is anything that `plan_load` understands, or such a plan."""
    started = world.monotonic()
    plan = source if isinstance(source, LoadPlan) else plan_load(source, catalog, world)
    rows = gather_rows(_batches(plan, catalog, world, strict=strict), world, touched=plan.types, strict=strict)
    counts = {key: each.table.num_rows for key, each in sorted(rows.items())}
    summary = LoadSummary(
        nodes=_of_kind(counts, "node:"),
        edges=_of_kind(counts, "edge:"),
        seconds=world.monotonic() - started,
        bytes=plan.size,
    )
    return LoadedRows(rows, summary)


def prepare_load(
    catalog: Catalog, view: ReadView, source: object, mode: Mode, world: World, *, strict: bool = True
) -> tuple[dict[str, TableChanges], LoadSummary]:
    """The changes that a load asks for, by table key, not yet validated against the schema's constraints.

    append: every id must be new. merge: a row replaces the one of its id, whole. overwrite: the rows become the whole
    content of each type that the source names or holds; other types keep theirs. Whoever may prepare twice, as the
    commit protocol does, passes `LoadedRows`: a stream can be read once only, and new ids must stay the same.
    """
    loaded = source if isinstance(source, LoadedRows) else read_load(catalog, source, world, strict=strict)
    changes = {}
    for key in sorted(loaded.rows):
        view.entry(key)
        table = loaded.rows[key].table
        changes[key] = TableChanges(key, table, overwrite=mode == "overwrite", only_new=mode == "append")
    return changes, loaded.summary


def _batches(plan: LoadPlan, catalog: Catalog, world: World, *, strict: bool) -> Iterator[Batch]:
    for each in plan.inputs:
        yield from read_input(each, catalog, world, strict=strict)


def _of_kind(counts: Mapping[str, int], prefix: str) -> dict[str, int]:
    return {key.removeprefix(prefix): rows for key, rows in counts.items() if key.startswith(prefix)}


@dataclass(frozen=True)
class Load:
    """A source that has been read, to be written in one of the modes."""

    catalog: Catalog
    loaded: LoadedRows
    mode: Mode
    world: World

    @property
    def is_repeatable(self) -> bool:
        """Whether it may be computed again from a newer state; replacing what somebody has just written may not."""
        return self.mode != "overwrite"

    def prepare(self, view: ReadView) -> WriteSet:
        """Validate the rows against a view, and say what to stage. A load without rows is a commit without changes."""
        changes, _ = prepare_load(self.catalog, view, self.loaded, self.mode, self.world)
        validate(self.catalog, view, changes)
        return WriteSet(writes_of(view, changes))
