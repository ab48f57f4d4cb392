"""What one process of a storm does until its time is over: all kinds of operations, drawn at random."""

from __future__ import annotations

import datetime as dt
import random  # noqa: TID251
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import omnigraph as og
from omnigraph.errors import OmniGraphError
from omnigraph.world import REAL
from storms.diary import Diary, end_of

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = """
node Person { name: String @key  age: I32? @index }
node Counter { name: String @key  value: I64 }
edge Link: Person -> Person { @key(src, dst) }
"""
SHARED = "shared"
ADD = "query q($n: String) { insert Person { name: $n, age: 1 } insert Link { from: $n, to: $n } }"
SET = "query q($n: String, $v: I64) { update Counter set { value: $v } where name = $n }"
NEW = "query q($n: String) { insert Counter { name: $n, value: 0 } }"
REMOVE = "query q($n: String) { delete Person where name = $n }"
VALUE = "query q($n: String) { match { $c: Counter { name: $n } } return { $c.value as v } }"
# States that were the newest this recently stay: longer than any process is stopped.
GRACE = dt.timedelta(seconds=30)
KEPT_TAGS = 2


def build(uri: str) -> None:
    """A graph with a past."""
    graph = og.init(uri, schema=SCHEMA, actor="build")
    graph.load(
        [
            {"type": "Counter", "data": {"name": SHARED, "value": 0}},
            *({"type": "Person", "data": {"name": f"built-{number}", "age": number}} for number in range(20)),
        ]
    )
    for number in range(3):
        graph.mutate(ADD, {"n": f"past-{number}"})
    graph.tags.create("built")
    graph.branches.create("kept")
    graph.mutate(ADD, {"n": "on-kept"}, branch="kept")


def work(uri: str, folder: str, name: str, seed: int, seconds: float, changes_schema: bool) -> int:
    """Work for so many seconds; how many operations."""
    with Path(folder, f"{name}.diary").open("ab") as file:
        return Worker(uri, name, Diary(file), random.Random(seed), changes_schema=changes_schema).run(seconds)


class Worker:
    """One process, with a graph of its own, and names that nobody else uses."""

    def __init__(self, uri: str, name: str, diary: Diary, choice: random.Random, *, changes_schema: bool) -> None:
        self._uri = uri
        self._name = name
        self._diary = diary
        self._choice = choice
        self._changes_schema = changes_schema
        self._number = 0
        self._rows: list[str] = []
        self._branches: list[str] = []
        self._tags: list[str] = []
        self._graph: og.Graph | None = None
        self._has_counter = False

    @property
    def graph(self) -> og.Graph:
        if self._graph is None:
            self._graph = og.open(self._uri)
        return self._graph

    def run(self, seconds: float) -> int:
        end = REAL.monotonic() + seconds
        acts: list[tuple[Callable[[], None], int]] = [
            (self._insert, 30), (self._load, 6), (self._bump, 12), (self._increment, 6), (self._remove, 8),
            (self._make_branch, 2), (self._branch_life, 5), (self._write_to_branch, 8), (self._merge, 4),
            (self._drop_branch, 3), (self._tag, 5), (self._drop_tag, 3), (self._optimize, 3), (self._index, 2),
            (self._clean, 3), (self._reopen, 2), (self._read, 8),
        ]  # fmt: skip
        if self._changes_schema:
            acts.append((self._change_schema, 5))
        kinds, weights = zip(*acts, strict=True)
        while REAL.monotonic() < end:
            with suppress(OmniGraphError):  # whatever it was is in the diary
                self._choice.choices(kinds, weights)[0]()
        return self._number

    def _do(self, what: str, act: Callable[[str], object], **told: object) -> bool:
        """Do one thing and write down what became of it."""
        self._number += 1
        key = f"{self._name}#{self._number}"
        self._diary.begin(key, what, **told)
        try:
            act(key)
        except Exception as error:  # noqa: BLE001 - whatever a caller would see
            self._diary.end(key, end_of(error), f"{type(error).__name__}: {error}")
            return False
        self._diary.end(key, "done")
        return True

    def _fresh(self, what: str) -> str:
        return f"{what}-{self._name}-{self._number + 1}"

    def _insert(self) -> None:
        name = self._fresh("p")
        if self._do("insert", lambda key: self.graph.mutate(ADD, {"n": name}, actor=key), row=name, branch="main"):
            self._rows.append(name)

    def _load(self) -> None:
        names = [f"{self._fresh('l')}-{each}" for each in range(10)]
        rows = [{"type": "Person", "data": {"name": each, "age": 2}} for each in names]
        links: list[dict[str, object]] = [{"edge": "Link", "from": each, "to": each, "data": {}} for each in names]
        self._do("load", lambda key: self.graph.load([*rows, *links], actor=key), rows=names)

    def _bump(self) -> None:
        """A counter of its own, in a table that all update."""
        mine = f"c-{self._name}"
        if not self._has_counter:
            self._has_counter = self._do(
                "counter", lambda key: self.graph.mutate(NEW, {"n": mine}, actor=key), counter=mine
            )
            return
        value = self._number + 1
        self._do("bump", lambda key: self._set(mine, value, key, None), counter=mine, value=value)

    def _increment(self) -> None:
        """Read the shared counter, and write one more only if nobody has committed since."""

        def once(key: str) -> None:
            snapshot = self.graph.snapshot()
            value = self.graph.query(VALUE, {"n": SHARED}, at=snapshot).to_pylist()[0]["v"]
            self._set(SHARED, value + 1, key, snapshot.commit_id)

        self._do("increment", once)

    def _set(self, counter: str, value: int, key: str, head: str | None) -> None:
        self.graph.mutate(SET, {"n": counter, "v": value}, actor=key, if_commit=head)

    def _remove(self) -> None:
        if self._rows:
            name = self._rows.pop(self._choice.randrange(len(self._rows)))
            self._do("remove", lambda key: self.graph.mutate(REMOVE, {"n": name}, actor=key), row=name)

    def _make_branch(self) -> None:
        name = self._fresh("b")
        if len(self._branches) < 2 and self._do("branch", lambda _: self.graph.branches.create(name), branch=name):
            self._branches.append(name)

    def _write_to_branch(self) -> None:
        branch = self._choice.choice([*self._branches, "kept"])
        name = self._fresh("p")
        write = lambda key: self.graph.mutate(ADD, {"n": name}, actor=key, branch=branch)  # noqa: E731
        self._do("insert", write, row=name, branch=branch)

    def _merge(self) -> None:
        if self._branches:
            branch = self._choice.choice(self._branches)
            self._do("merge", lambda key: self.graph.merge(branch, actor=key), branch=branch)

    def _drop_branch(self) -> None:
        if self._branches:
            branch = self._branches.pop(0)
            self._do("drop branch", lambda _: self.graph.branches.delete(branch, force=True), branch=branch)

    def _branch_life(self) -> None:
        """A branch from its beginning to its end."""
        for act in (self._make_branch, self._write_to_branch, self._write_to_branch, self._merge, self._drop_branch):
            act()

    def _tag(self) -> None:
        """At the newest commit, or at one a little earlier, which a cleanup may just be taking."""
        name = self._fresh("t")

        def make(_: str) -> None:
            earlier = self.graph.commits()[:8]
            self.graph.tags.create(name, self._choice.choice(earlier).id)

        if len(self._tags) < KEPT_TAGS and self._do("tag", make, tag=name):
            self._tags.append(name)

    def _drop_tag(self) -> None:
        if self._tags:
            name = self._tags.pop(0)
            self._do("drop tag", lambda _: self.graph.tags.delete(name), tag=name)

    def _optimize(self) -> None:
        branch = self._choice.choice(["main", "kept"])
        self._do("optimize", lambda _: _require_none(self.graph.optimize(branch=branch).tables))

    def _index(self) -> None:
        self._do("ensure_indices", lambda _: self.graph.ensure_indices())

    def _clean(self) -> None:
        self._do("cleanup", lambda _: _require_none(self.graph.cleanup(keep=20, grace=GRACE).tables))

    def _reopen(self) -> None:
        self._graph = None
        self._do("open", lambda _: self.graph)

    def _read(self) -> None:
        """One state, twice the same."""

        def read(_: str) -> None:
            snapshot = self.graph.snapshot()
            for _ in range(2):
                for entry in snapshot:
                    count = self.graph._manifest.stores.tables.open(entry.pin).count_rows()
                    assert count == entry.row_count, f"{entry.table_key} has {count} rows, told {entry.row_count}"

        self._do("read", read)

    def _change_schema(self) -> None:
        more = f"by_{self._name}_{self._number + 1}".replace("-", "_")

        def change(key: str) -> None:
            self.graph.refresh()
            self.graph.apply_schema(self.graph.schema.replace("value: I64", f"value: I64  {more}: I32?", 1), actor=key)

        self._do("schema", change, more=more)


class ToldInReportError(Exception):
    """A report of upkeep has told what somebody would have to look at."""


def _require_none(tables: object) -> None:
    wrong = [
        f"{each.table_key}: {told}"
        for each in tables  # type: ignore[attr-defined]
        if (told := each.error or getattr(each, "skipped", None)) not in (None, "inherited", "written_to_meanwhile")
    ]
    if wrong:
        raise ToldInReportError("; ".join(wrong))
