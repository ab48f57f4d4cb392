"""Two branches with drawn changes, in every combination that a merge has to settle, and what a merge made of them."""

from __future__ import annotations

import random  # noqa: TID251
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import omnigraph as og
from omnigraph.errors import MergeConflicts, OmniGraphError

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.errors.commits import Conflict

SCHEMA = """
node Person {
    name: String @key
    age: I32?
    score: F64?
    seen: DateTime?
    tags: [String]?
    email: String? @unique
    @range(age, 0..150)
    @unique(age, score)
}
node City { name: String @key }
edge Likes: Person -> Person { why: String?  @key(src, dst) }
edge LivesIn: Person -> City @card(0..1) { since: I32?  @key(src, dst) }
edge Owns: Person -> City @card(1..2) { @key(src, dst) }
"""
PEOPLE = [f"p{number}" for number in range(9)]
CITIES = ["Oslo", "Rome", "Bern"]
TABLES = ("edge:Likes", "edge:LivesIn", "edge:Owns", "node:City", "node:Person")
KEYS = {"Likes": (PEOPLE, PEOPLE), "LivesIn": (PEOPLE, CITIES), "Owns": (PEOPLE, CITIES)}
Told = tuple[str, str, str, str]


@dataclass
class Drawn:
    """A graph with a common state on main, from which any number of pairs of branches part."""

    graph: og.Graph
    chance: random.Random
    made: int = 0

    @classmethod
    def begin(cls, folder: Path, seed: int) -> Drawn:
        graph = og.init(folder / "graph", schema=SCHEMA)
        people = [
            {"type": "Person", "data": {"name": name, "age": at, "score": float(at), "email": f"{name}@x"}}
            for at, name in enumerate(PEOPLE[:6])
        ]
        cities = [{"type": "City", "data": {"name": name}} for name in CITIES]
        edges = [
            {"edge": "Likes", "from": "p0", "to": "p1", "data": {"why": "so"}},
            {"edge": "LivesIn", "from": "p0", "to": "Oslo", "data": {}},
            {"edge": "Owns", "from": "p1", "to": "Oslo", "data": {}},
            {"edge": "Owns", "from": "p2", "to": "Rome", "data": {}},
        ]
        graph.load([*people, *cities, *edges], mode="append", engine="local")
        return cls(graph, random.Random(seed))

    def sides(self, changes: int = 4) -> tuple[str, str, str]:
        """A source, and two targets of the same content, each merged with it once."""
        self.made += 1
        source, one, other = (f"{what}{self.made}" for what in ("source", "one", "other"))
        for branch in (source, one):
            self.graph.branches.create(branch)
            for _ in range(changes):
                self._change(branch)
        self.graph.branches.create(other, from_=one)
        return source, one, other

    def _change(self, branch: str) -> None:
        """One change; where the rules of the schema forbid it, none."""
        step = self.chance.choice(
            [self._person, self._person, self._person, self._no_person, self._edge, self._no_edge]
        )
        try:
            step(branch)
        except OmniGraphError:
            return

    def _person(self, branch: str) -> None:
        name = self.chance.choice(PEOPLE)
        there = self.graph.entity("Person", name, branch=branch)
        held: dict[str, Any] = {} if there is None else dict(there)
        data = {**{key: held.get(key) for key in ("age", "score", "email", "tags")}, "name": name}
        for key in self.chance.sample(["age", "score", "email", "tags", "seen"], self.chance.choice([1, 1, 2])):
            data[key] = self._value(key)
        self.graph.load([{"type": "Person", "data": data}], branch=branch, mode="merge", engine="local")

    def _value(self, key: str) -> object:
        number = self.chance.randrange(4)
        values: dict[str, object] = {
            "age": number,
            "score": number / 2,
            "email": self.chance.choice([f"p{number}@x", f"new{number}@x", None]),
            "tags": ["a"] * number,
            "seen": f"2026-01-0{number + 1}T10:11:12.{number}Z",
        }
        return values[key]

    def _no_person(self, branch: str) -> None:
        name = self.chance.choice(PEOPLE)
        self.graph.mutate(f'query q() {{ delete Person where name = "{name}" }}', branch=branch)

    def _edge(self, branch: str) -> None:
        kind = self.chance.choice(list(KEYS))
        source, target = (self.chance.choice(names) for names in KEYS[kind])
        data = {"why": str(self.chance.randrange(3))} if kind == "Likes" else {}
        edge = {"edge": kind, "from": source, "to": target, "data": data}
        self.graph.load([edge], branch=branch, mode="merge", engine="local")

    def _no_edge(self, branch: str) -> None:
        kind = self.chance.choice(list(KEYS))
        self.graph.mutate(f'query q() {{ delete {kind} where from = "{self.chance.choice(PEOPLE)}" }}', branch=branch)

    def resolver(self) -> Any:
        return self.chance.choice([None, None, "ours", "theirs", older(), lambda _: {"age": 999}])

    def rows(self, branch: str) -> dict[str, dict[str, Any]]:
        """All rows of a branch, by table and id."""
        found = {}
        for key in TABLES:
            table = self.graph._manifest.stores.tables.open(self.graph.snapshot(branch=branch)[key].pin).read()
            found[key] = {row["id"]: row for row in table.to_pylist()}
            assert len(found[key]) == table.num_rows == self.graph.snapshot(branch=branch)[key].row_count
        return found


def older() -> Any:
    """A resolver that makes a row of its own where both sides have one. Made here, it travels to tasks by value."""

    def resolve(conflict: Conflict) -> Any:
        if conflict.ours is None or conflict.theirs is None:
            return "theirs"
        return {"age": max(conflict.ours.get("age") or 0, conflict.theirs.get("age") or 0)}

    return resolve


def told(conflicts: tuple[Conflict, ...]) -> list[Told]:
    """Conflicts in an order of their own; numbers of edges are counted by source, whatever table key names it."""
    return sorted((each.kind, each.table_key, each.row_id, each.message) for each in conflicts)


def outcome(drawn: Drawn, merge: Any) -> object:
    """What a merge did, or why it did nothing."""
    try:
        done = merge()
    except MergeConflicts as refusal:
        return told(refusal.conflicts)
    return done.kind, done.puts, done.deletes
