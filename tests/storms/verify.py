"""What must hold after a storm, told from the diaries of its processes and from the graph itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, get_args

import omnigraph as og
from crash.suspension.look import litter
from omnigraph.errors import OmniGraphError
from omnigraph.world import REAL
from storms.diary import End
from storms.worker import SHARED

if TYPE_CHECKING:
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.manifest.snapshot import Snapshot
    from storms.diary import Diaries, Entry

# Each makes one commit, with the key of its entry as the actor.
ONE_COMMIT = ("insert", "load", "counter", "bump", "increment", "remove", "merge", "schema")
# A merge of what is merged already makes none.
AT_MOST_ONE = ("merge",)
LAST = (
    "query q($n: String) { insert Person { name: $n } insert Link { from: $n, to: $n } "
    "insert Counter { name: $n, value: 1 } }"
)


@dataclass
class Verdict:
    """Counts for a table, and what was wrong."""

    counts: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


class Verifier:
    """Looks at a graph after everybody has ended."""

    def __init__(self, uri: str, diaries: Diaries) -> None:
        self.diaries = diaries
        self.wrong: list[str] = []
        self.graph = og.open(uri, actor="verifier")

    def run(self) -> Verdict:
        """All checks; each tells what is wrong and lets the others go on."""
        names = (self._branches, self._tags)
        for check in (self._answers, self._write_everywhere, self._commits, self._rows, self._counters, *names):
            try:
                check()
            except OmniGraphError as error:
                self.wrong.append(f"{check.__name__.strip('_')}: {type(error).__name__}: {error}")
        self.wrong += [f"litter: {each}" for each in litter(self.graph)]
        told = Counter(each.end for each in self.diaries.entries)
        ends = {end: told[end] for end in get_args(End)}
        kinds = {f"{each} done": count for each, count in sorted(self._done.items())}
        return Verdict({**ends, "commits": len(self._by_actor), **kinds}, self.wrong)

    @property
    def _done(self) -> Counter[str]:
        return Counter(each.what for each in self.diaries.entries if each.end == "done")

    def _answers(self) -> None:
        """Nothing was refused, and no error of the inside was told."""
        for each in self.diaries.entries:
            if each.end in ("refused", "inner"):
                self.wrong.append(f"{each.key} {each.what} {each.told}: {each.end}: {each.error}")

    @cached_property
    def _by_actor(self) -> Counter[str]:
        commits: dict[str, GraphCommit] = {}
        for branch in self.graph.branches.list():
            commits.update(self.graph._manifest.lineage(branch.name).commits)
        return Counter(each.actor or "" for each in commits.values())

    def _commits(self) -> None:
        """One commit for each operation that is done, none for one that is not; those of lost branches went along."""
        gone = {each.told["branch"] for each in self.diaries.of("drop branch")}
        for each in self.diaries.entries:
            if each.what not in ONE_COMMIT:
                continue
            found = self._by_actor[each.key]
            least = 1 if each.end == "done" and each.what not in AT_MOST_ONE else 0
            if each.what == "insert" and each.told["branch"] in gone:
                least = 0
            most = 1 if each.end in ("done", "unknown", "refused", "inner") else 0
            if not least <= found <= most:
                self.wrong.append(f"{each.key} {each.what} ended {each.end!r} and has {found} commits {each.error}")

    def _rows(self) -> None:
        people = {branch.name: self._people(branch.name) for branch in self.graph.branches.list()}
        removed = {each.told["row"]: each for each in self.diaries.of("remove")}
        merged = self._merged()
        for entry, row, branch in self._written():
            wanted = {branch, *(["main"] if entry.key in merged.get(branch, set()) else [])}
            if entry.end == "done":
                self._require(entry, row, wanted & people.keys(), people, removed.get(row))
            elif entry.end in ("not done", "verdict"):
                self.wrong += [f"{row} of {entry.key} is not done and on {one}" for one in people if row in people[one]]

    def _require(
        self, entry: Entry, row: str, where: set[str], people: dict[str, Counter[str]], removed: Entry | None
    ) -> None:
        for branch in where:
            count = people[branch][row]
            if branch == "main" and removed is not None and removed.end != "not done":
                if removed.end == "done" and count:
                    self.wrong.append(f"{row} of {entry.key} was removed by {removed.key} and is there")
            elif count != 1:
                self.wrong.append(f"{row} of {entry.key} is done and {count} times on {branch}")

    def _written(self) -> list[tuple[Entry, str, str]]:
        inserted = [(each, each.told["row"], each.told["branch"]) for each in self.diaries.of("insert")]
        return inserted + [(each, row, "main") for each in self.diaries.of("load") for row in each.told["rows"]]

    def _merged(self) -> dict[str, set[str]]:
        """The keys of inserts into branches that the same process has merged afterwards, by branch."""
        found: dict[str, set[str]] = {}
        written: dict[str, set[str]] = {}
        for each in self.diaries.entries:
            if each.what == "insert" and each.told["branch"] != "kept":
                written.setdefault(each.told["branch"], set()).add(each.key)
            if each.what == "merge" and each.end == "done":
                found[each.told["branch"]] = set(written.get(each.told["branch"], ()))
        return found

    def _people(self, branch: str) -> Counter[str]:
        names: Counter[str] = Counter()
        for key, rows in self._read(self.graph.snapshot(branch=branch), f"branch {branch}").items():
            ids = [each["id"] for each in rows]
            if len(set(ids)) != len(ids):
                self.wrong.append(
                    f"{key} on {branch} has ids twice: {[i for i, n in Counter(ids).items() if n > 1][:5]}"
                )
            if key == "node:Person":
                names.update(each["name"] for each in rows)
        return names

    def _read(self, snapshot: Snapshot, where: str) -> dict[str, list[dict[str, Any]]]:
        found = {}
        for entry in snapshot:
            try:
                found[entry.table_key] = self.graph._manifest.stores.tables.open(entry.pin).read().to_pylist()
            except OmniGraphError as error:
                self.wrong.append(f"{where}: {entry.table_key} cannot be read: {type(error).__name__}: {error}")
                continue
            if len(found[entry.table_key]) != entry.row_count:
                self.wrong.append(f"{where}: {entry.table_key} miscounts its rows")
        return found

    def _counters(self) -> None:
        """Each counter has the value of the newest commit that set it; the shared one counts its commits."""
        values = {each["name"]: each["value"] for each in self._read(self.graph.snapshot(), "main")["node:Counter"]}
        increments = sum(self._by_actor[each.key] for each in self.diaries.of("increment"))
        if values.get(SHARED) != increments:
            self.wrong.append(f"the shared counter is {values.get(SHARED)} after {increments} commits")
        order = [each.actor for each in reversed(list(self.graph._manifest.lineage().first_parents()))]
        at = {actor: position for position, actor in enumerate(order)}
        newest: dict[str, tuple[int, int]] = {}
        for each in self.diaries.of("bump"):
            if each.key in at:
                counter = each.told["counter"]
                newest[counter] = max(newest.get(counter, (-1, 0)), (at[each.key], each.told["value"]))
        for counter, (_, value) in newest.items():
            if values.get(counter) != value:
                self.wrong.append(f"{counter} is {values.get(counter)} and was set to {value} last")

    def _branches(self) -> None:
        there = {each.name for each in self.graph.branches.list()}
        dropped = {each.told["branch"]: each.end for each in self.diaries.of("drop branch")}
        for each in self.diaries.of("branch"):
            name = each.told["branch"]
            self._named(each, f"branch {name}", name in there, dropped.get(name))

    def _tags(self) -> None:
        there = {each.name for each in self.graph.tags.list()}
        dropped = {each.told["tag"]: each.end for each in self.diaries.of("drop tag")}
        for each in self.diaries.of("tag"):
            name = each.told["tag"]
            self._named(each, f"tag {name}", name in there, dropped.get(name))
        for name in there:
            self._read(self.graph.snapshot(at=name), f"tag {name}")

    def _named(self, made: Entry, name: str, is_there: bool, dropped: str | None) -> None:
        if is_there and made.end in ("not done", "verdict"):
            self.wrong.append(f"{name} of {made.key} is not done and there: {made.error}")
        if made.end == "done" and dropped in (None, "not done", "verdict") and not is_there:
            self.wrong.append(f"{name} of {made.key} is done and not there; dropping it: {dropped}")
        if dropped == "done" and is_there:
            self.wrong.append(f"{name} was dropped and is there")

    def _write_everywhere(self) -> None:
        """Every table of every branch, within a time that a user would wait."""
        for branch in self.graph.branches.list():
            began = REAL.monotonic()
            try:
                self.graph.mutate(LAST, {"n": "last"}, branch=branch.name, actor="verifier")
            except OmniGraphError as error:
                self.wrong.append(f"{branch.name} cannot be written: {type(error).__name__}: {error}")
            if REAL.monotonic() - began > 30:
                self.wrong.append(f"writing to {branch.name} took {REAL.monotonic() - began:.0f} s")
