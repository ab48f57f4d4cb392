"""A load on the embedded engine: reads the source, fills vectors, and prepares one operation for the commit protocol.

The source is read, typed and given row ids completely before anything is staged, so bad input changes nothing. Vectors
of `@embed` properties are computed between reading and validation.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from omnigraph.catalog.arrow import node_arrow_schema
from omnigraph.catalog.catalog import NodeType
from omnigraph.deprecation import warn_deprecated
from omnigraph.embeddings.embedder import fill_vectors
from omnigraph.kernels.report import Report
from omnigraph.load.plan import LoadPlan, plan_load
from omnigraph.load.read import read_input
from omnigraph.load.rows import InputRows, gather_rows
from omnigraph.transaction.commit.protocol import Operation
from omnigraph.transaction.constraints.validate import validate
from omnigraph.transaction.table_writes import writes_of
from omnigraph.transaction.write_set import TableChanges, WriteSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.embeddings.embedder import Embeddings
    from omnigraph.load.plan import LoadOptions
    from omnigraph.transaction.commit.protocol import AnySchema
    from omnigraph.transaction.read_view import ReadView
    from omnigraph.values.batches import Batch, Mode
    from omnigraph.world import World


def rows_with_vectors(batch: Batch, rows: pa.Table, catalog: Catalog, embeddings: Embeddings, world: World) -> pa.Table:
    """The rows of a batch in the table's schema, with missing `@embed` vectors computed."""
    return _filled(InputRows(batch.type, rows), catalog, embeddings, world).table


def with_vectors(loaded: LoadedRows, catalog: Catalog, embeddings: Embeddings, world: World) -> LoadedRows:
    """Compute the vector of every row that has a source text and no vector. Given vectors are not replaced."""
    rows = {key: _filled(each, catalog, embeddings, world) for key, each in loaded.rows.items()}
    return replace(loaded, rows=rows)


def _filled(rows: InputRows, catalog: Catalog, embeddings: Embeddings, world: World) -> InputRows:
    if not isinstance(rows.type, NodeType):
        return rows
    kind = catalog.nodes[rows.type.name]
    made = fill_vectors(rows.table, kind, embeddings, world)
    return replace(rows, type=kind, table=pa.Table.from_arrays(made.columns, schema=node_arrow_schema(kind)))


@dataclass(frozen=True, repr=False)
class LoadSummary(Report):
    """What a load has read: rows by type name, nodes and edges apart. `bytes` is None when the source does not say."""

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

    def to_dict(self) -> dict[str, Any]:
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

    def as_json(self) -> dict[str, object]:
        """The former name of `to_dict`."""
        warn_deprecated("LoadSummary.as_json()", "to_dict()", removed_in="0.3")
        return self.to_dict()

    def _summary(self) -> str:
        types = len(self.nodes) + len(self.edges)
        aside = f", {sum(self.rejected.values()):,} rejected" if self.rejected else ""
        return f"{self.rows:,} rows of {types} types in {self.seconds:.2f} s on {self.engine}{aside}"


@dataclass(frozen=True)
class LoadedRows:
    """A source after reading: complete rows by table key, which can be prepared against any read view."""

    rows: Mapping[str, InputRows]
    summary: LoadSummary


def read_load(catalog: Catalog, source: object, world: World, *, strict: bool = True) -> LoadedRows:
    """Read a source completely. `source` is a `LoadPlan` or anything that `plan_load` accepts."""
    started = world.monotonic()
    plan = source if isinstance(source, LoadPlan) else plan_load(source, catalog, world)
    rows = gather_rows(_batches(plan, catalog, world, strict=strict), world, named=plan.types, strict=strict)
    counts = {key: each.table.num_rows for key, each in sorted(rows.items())}
    summary = LoadSummary(
        nodes=rows_of_kind(counts, "node:"),
        edges=rows_of_kind(counts, "edge:"),
        seconds=world.monotonic() - started,
        bytes=plan.size,
    )
    return LoadedRows(rows, summary)


def prepare_load(
    catalog: Catalog, view: ReadView, source: object, mode: Mode, world: World, *, strict: bool = True
) -> tuple[dict[str, TableChanges], LoadSummary]:
    """The changes of a load by table key, not yet validated against the schema's constraints.

    append: every id must be new. merge: a row replaces the whole row with the same id. overwrite: the rows replace the
    content of each type that the source names or contains; other types are unchanged. A caller that may prepare more
    than once, as the commit protocol does, passes `LoadedRows`: a stream can be read only once, and minted ids must
    not change between attempts.
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


def rows_of_kind(counts: Mapping[str, int], prefix: str) -> dict[str, int]:
    """The counts of node types (`node:`) or edge types (`edge:`), by type name."""
    return {key.removeprefix(prefix): rows for key, rows in counts.items() if key.startswith(prefix)}


def load_operation(
    prepare: Callable[[ReadView], WriteSet],
    options: LoadOptions,
    *,
    repeatable: bool,
    schema: str | AnySchema | None,
) -> Operation:
    """A load as an operation of the commit protocol."""
    return Operation(
        "Load",
        prepare,
        branch=options.branch,
        actor=options.actor,
        repeatable=repeatable,
        idempotency_key=options.idempotency_key,
        schema=schema,
    )


@dataclass(frozen=True)
class Load:
    """The operation that writes a source, already read, in one of the load modes."""

    catalog: Catalog
    loaded: LoadedRows
    mode: Mode
    world: World

    @property
    def is_repeatable(self) -> bool:
        """Whether it may be prepared again on a newer snapshot. Not for overwrite, which would drop other writes."""
        return self.mode != "overwrite"

    def prepare(self, view: ReadView) -> WriteSet:
        """Validate the rows against a read view and return what to stage. A load without rows is an empty commit."""
        changes, _ = prepare_load(self.catalog, view, self.loaded, self.mode, self.world)
        validate(self.catalog, view, changes)
        return WriteSet(writes_of(view, changes))
