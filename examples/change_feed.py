"""A copy of a graph in SQLite that follows every change, exactly once, whatever dies in between.

    python examples/change_feed.py

The copy begins with a baseline: one state of the graph, and the cursor from which its changes go on. Each page of
changes is written in one transaction together with the cursor after it, so that a consumer that is killed goes on where
its last transaction ended: nothing is skipped and nothing is done twice. When a clean-up of the graph has taken changes
that the consumer had not read, the feed says so (`ChangeFeedGap`) and the copy begins again.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import omnigraph as og

if TYPE_CHECKING:
    from collections.abc import Iterable

    from omnigraph.types import Change

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person
"""
TABLES = """
create table if not exists entity(
    type text, id text, source text, target text, properties text, primary key (type, id)
);
create table if not exists place(cursor text);
"""


class Mirror:
    """Follows one branch of a graph."""

    def __init__(self, graph: og.Graph, file: Path) -> None:
        self.graph, self.database = graph, sqlite3.connect(file)
        self.database.executescript(TABLES)

    def cursor(self) -> str | None:
        """Where the copy is; None before it has begun."""
        found = self.database.execute("select cursor from place").fetchone()
        return found[0] if found else None

    def begin(self) -> str:
        """Copy one whole state."""
        baseline = self.graph.baseline()
        with self.database:
            self.database.execute("delete from entity")
            for changed in baseline.records():
                self._put(map(json.loads, changed.splitlines()))
            self._go_to(baseline.cursor)
        return baseline.cursor

    def follow(self) -> int:
        """Take over what is new; the number of changes."""
        cursor, seen = self.cursor() or self.begin(), 0
        while True:
            try:
                page = self.graph.changes(since=cursor, limit=500)
            except og.errors.ChangeFeedGap:
                cursor = self.begin()
                continue
            with self.database:
                self._apply(page)
                self._go_to(page.cursor)
            cursor, seen = page.cursor, seen + len(page.changes)
            if page.caught_up:
                return seen

    def _put(self, records: Iterable[dict[str, Any]]) -> None:
        for record in records:
            properties = record["data"]
            ident = properties.pop("id")
            kind = record.get("type") or record["edge"]
            row = (kind, ident, record.get("from"), record.get("to"), json.dumps(properties))
            self.database.execute("insert into entity values (?, ?, ?, ?, ?)", row)

    def _apply(self, changes: Iterable[Change]) -> None:
        for change in changes:
            key = (change.type_name, change.id)
            if change.after is None:
                self.database.execute("delete from entity where type = ? and id = ?", key)
                continue
            after = change.after
            row = (*key, after.source, after.target, json.dumps(after.properties, default=str))
            self.database.execute("insert or replace into entity values (?, ?, ?, ?, ?)", row)

    def _go_to(self, cursor: str) -> None:
        self.database.execute("delete from place")
        self.database.execute("insert into place values (?)", (cursor,))


def main(place: Path) -> None:
    """A graph, a copy, changes of every kind, and the copy again, by a consumer that knows only its file."""
    graph = og.init(place / "graph.omni", schema=SCHEMA)
    graph.load({"Person": [{"name": "Ada", "age": 36}, {"name": "Bob"}], "Knows": [{"from": "Ada", "to": "Bob"}]})
    Mirror(graph, place / "copy.db").follow()

    graph.mutate('query q() { insert Person { name: "Cy" }  insert Knows { from: "Cy", to: "Ada" } }')
    graph.mutate('query q() { update Person set { age: age + 1 } where name = "Ada" }')
    graph.mutate('query q() { delete Person where name = "Bob" }')
    again = Mirror(graph, place / "copy.db")
    print(f"{again.follow()} changes since the last time, {again.follow()} after them")
    for row in again.database.execute("select type, source, target, properties from entity order by type desc, id"):
        print(row)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(Path(scratch))
