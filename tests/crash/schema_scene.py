"""A change of schema, cut before each durable step: afterwards every branch is in the one schema or in the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import omnigraph as og
from crash.graph_copies import replace_graph
from crash.schema_changes import Seen, seen
from crash.workloads import unsettled
from omnigraph.catalog.arrow import table_arrow_schemas
from omnigraph.manifest.schema_files import STAGING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from crash.zygote import Zygote


@dataclass
class Scene:
    """A graph that is put back to its beginning for every cut.

    `work` is what a child does with the graph and the arguments; `redo` does the same with an open graph.
    """

    folder: Path
    build: Callable[[str], None]
    work: Callable[..., None]
    arguments: tuple[Any, ...]
    redo: Callable[[og.Graph], object]
    before: Seen = field(init=False)
    after: Seen = field(init=False)

    def __post_init__(self) -> None:
        self.build(self.uri)
        replace_graph(str(self.folder / "beginning"), self.uri)
        self.before = seen(og.open(self.uri))
        self.redo(og.open(self.uri))
        self.after = seen(og.open(self.uri))

    @property
    def uri(self) -> str:
        return str(self.folder / "graph.omni")

    def reset(self) -> None:
        replace_graph(self.uri, str(self.folder / "beginning"))

    def sweep(self, zygote: Zygote, failpoint: str, *, every: int = 1, limit: int = 400) -> list[str]:
        """Every so many-th cut, looked at with a handle that was open all the time and a new one; what was wrong."""
        wrong = []
        for cut in range(1, limit, every):
            self.reset()
            living = og.open(self.uri)
            child = zygote.start(self.work, self.uri, *self.arguments, failpoints=f"{failpoint}@{cut}")
            told = child.reports()
            if not child.outcome().killed and told == "done":
                assert cut > 5, "the failpoint was hardly reached"
                return wrong
            wrong += [f"{failpoint}@{cut}, {each}" for each in self._after_a_cut(living)]
        raise AssertionError("the change never came to its end")

    def _after_a_cut(self, living: og.Graph) -> list[str]:
        cut = str(self.folder / "cut")
        replace_graph(cut, self.uri)
        wrong = [f"read-only: {each}" for each in self._wrong(og.open(self.uri, read_only=True))]
        wrong += [f"living: {each}" for each in self._wrong(living)]
        living.refresh()
        wrong += [f"refreshed: {each}" for each in self._wrong(living, settled=True)]
        replace_graph(self.uri, cut)
        wrong += [f"opened: {each}" for each in self._wrong(og.open(self.uri), settled=True)]
        return wrong + [f"again: {each}" for each in self._cannot_go_on()]

    def _wrong(self, graph: og.Graph, *, settled: bool = False) -> list[str]:
        wrong = unsettled(graph) if settled else []
        now = seen(graph)
        for branch, tables in now.items():
            if tables not in (self.before[branch], self.after[branch]):
                wrong.append(f"{branch} is between two states")
            wrong += _misread(graph, branch)
        if settled and now not in (self.before, self.after):
            wrong.append("it is neither before nor after")
        names = graph._manifest.stores.objects.list_names()
        return wrong + [each for each in names if settled and each.endswith(STAGING)]

    def _cannot_go_on(self) -> list[str]:
        """Whatever happened, the change can be made, and then there is nothing left of the accident."""
        graph = og.open(self.uri)
        self.redo(graph)
        return self._wrong(graph, settled=True) if seen(graph) == self.after else ["it cannot be made any more"]


def _misread(graph: og.Graph, branch: str) -> list[str]:
    """The schema that a state is read with must be the one that its tables are in."""
    snapshot = graph.snapshot(branch=branch)
    catalog = graph._schemas.of(snapshot.schema).catalog
    wanted = {key: set(schema.names) for key, schema in table_arrow_schemas(catalog).items()}
    stores = graph._manifest.stores
    stored = {each.table_key: set(stores.tables.open(each.pin).schema.names) for each in snapshot}
    return [] if stored == wanted else [f"{branch} is read with another schema than its rows are in"]
