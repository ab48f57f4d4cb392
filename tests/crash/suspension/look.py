"""What there is of a graph: rows of every branch and tag, commits by actor, and what should not be there."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crash.workloads import unsettled
from omnigraph.errors import OmniGraphError
from omnigraph.manifest.schema_files import STAGING

if TYPE_CHECKING:
    import omnigraph as og
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.storage.tables.table import Pin

Rows = frozenset[tuple[Any, ...]]
State = dict[str, dict[str, Rows]]

# Rows of bystanders: their order among the others does not matter, and they are looked for by name.
BYSTANDERS = ("second-", "last-")


@dataclass(frozen=True)
class Seen:
    """All rows of every branch and tag without those of bystanders, their names, and the commits of each actor."""

    state: State
    bystanders: dict[str, frozenset[str]]
    commits: Counter[str]
    unreadable: tuple[str, ...] = ()


def look(graph: og.Graph) -> Seen:
    """Read everything that has a name."""
    reader = _Reader(graph)
    for branch in graph.branches.list():
        reader.read(f"branch {branch.name}", lambda name=branch.name: graph.snapshot(branch=name))
    for tag in graph.tags.list():
        reader.read(f"tag {tag.name}", lambda name=tag.name: graph.snapshot(at=name))
    actors: dict[str, str] = {}
    for branch in graph.branches.list():
        for commit in graph._manifest.lineage(branch.name).commits.values():
            actors[commit.id] = commit.actor or ""
    return Seen(reader.state, reader.bystanders, Counter(actors.values()), tuple(reader.unreadable))


class _Reader:
    """Reads each version of a table once."""

    def __init__(self, graph: og.Graph) -> None:
        self._graph = graph
        self._known: dict[Pin, tuple[Rows, int]] = {}
        self.state: State = {}
        self.bystanders: dict[str, frozenset[str]] = {}
        self.unreadable: list[str] = []

    def read(self, name: str, snapshot_of: Any) -> None:
        try:
            snapshot: Snapshot = snapshot_of()
            tables = {entry.table_key: self._rows(entry) for entry in snapshot}
        except OmniGraphError as error:
            self.unreadable.append(f"{name} cannot be read: {type(error).__name__}: {error}")
            return
        self.state[name] = {key: frozenset(each for each in rows if not _named(each)) for key, rows in tables.items()}
        people = tables.get("node:Person", frozenset())
        self.bystanders[name] = frozenset(found for each in people if (found := _named(each)))

    def _rows(self, entry: Any) -> Rows:
        if entry.pin not in self._known:
            rows = self._graph._manifest.stores.tables.open(entry.pin).read()
            self._known[entry.pin] = frozenset(tuple(row.items()) for row in rows.to_pylist()), rows.num_rows
        values, count = self._known[entry.pin]
        if not len(values) == count == entry.row_count:
            self.unreadable.append(f"{entry.table_key} repeats or miscounts rows: {count} read, {entry.row_count} told")
        return values


def _named(row: tuple[Any, ...]) -> str:
    """The name of the bystander that a row belongs to."""
    return next((value for _, value in row if isinstance(value, str) and value.startswith(BYSTANDERS)), "")


def litter(graph: og.Graph) -> list[str]:
    """Files that an operation left behind and nobody needs, and all that `unsettled` finds."""
    wrong = [f"unsettled: {each}" for each in unsettled(graph)]
    names = graph._manifest.stores.objects.list_names()
    wrong += [f"left behind: {each}" for each in names if each.endswith(STAGING)]
    root = Path(graph.uri)
    if "://" not in graph.uri:
        wrong += [f"left behind: {each.relative_to(root)}" for each in root.rglob("*#*")]
    return wrong
