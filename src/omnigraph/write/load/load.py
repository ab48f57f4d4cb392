"""A load, prepared: all is read, typed and identified before anything is staged: a bad input changes nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from omnigraph.write.changes import TableChanges
from omnigraph.write.load.reading import read_input
from omnigraph.write.load.rows import Rows, gather_rows
from omnigraph.write.load.sources import LoadPlan, plan_load

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from omnigraph.language.schema.catalog import Catalog
    from omnigraph.world import World
    from omnigraph.write.load.batches import Batch
    from omnigraph.write.view import View

Mode = Literal["append", "merge", "overwrite"]


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

    rows: Mapping[str, Rows]
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
    catalog: Catalog, view: View, source: object, mode: Mode, world: World, *, strict: bool = True
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
