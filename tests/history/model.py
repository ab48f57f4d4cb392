"""Branches and merges by definition, on dictionaries: what the real thing is held against."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
Rows = dict[str, Row]
State = dict[str, Rows]  # by table key
Told = set[tuple[str, str, str]]  # kind, table key, id

TABLES = ("edge:Knows", "node:Person")


@dataclass(frozen=True)
class Commit:
    """A state, and where it came from."""

    number: int
    state: State
    parent: int | None
    merged: int | None = None


@dataclass
class Model:
    """Every commit that was made, and the history of each branch that is there, the newest last."""

    commits: list[Commit] = field(default_factory=list)
    branches: dict[str, list[int]] = field(default_factory=dict)

    def begin(self, state: State) -> None:
        self.commits.append(Commit(0, state, None))
        self.branches["main"] = [0]

    def state(self, branch: str) -> State:
        return self.commits[self.branches[branch][-1]].state

    def commit(self, branch: str, state: State, merged: int | None = None) -> None:
        number = len(self.commits)
        self.commits.append(Commit(number, state, self.branches[branch][-1], merged))
        self.branches[branch].append(number)

    def merge(self, source: str, target: str, resolve: str | None) -> tuple[str, State, Told]:
        """What kind of merge it is, the state it makes, and the conflicts that keep it from being made."""
        theirs, ours = self.branches[source][-1], self.branches[target][-1]
        tips, root = self.bases(theirs, ours)
        if theirs in tips:
            return "already_up_to_date", self.commits[ours].state, set()
        kind = "fast_forward" if ours in tips else "merged"
        state: State = {}
        told: Told = set()
        for table in TABLES:
            base, undecided = self._base(tips, root, table)
            rows, found = merge_rows(
                base, self.commits[ours].state[table], self.commits[theirs].state[table], undecided, resolve
            )
            state[table] = rows
            told |= {(what, table, row_id) for what, row_id in found}
        return kind, state, told or orphans(state)

    def bases(self, one: int, other: int) -> tuple[list[int], int | None]:
        tips = self._last(self._ancestors(one) & self._ancestors(other))
        roots = tips
        while len(roots) > 1:
            roots = self._last(set.intersection(*(self._ancestors(each) for each in roots)))
        return tips, roots[0] if roots else None

    def contains(self, branch: str, number: int) -> bool:
        return number in self._ancestors(self.branches[branch][-1])

    def _base(self, tips: list[int], root: int | None, table: str) -> tuple[Rows, set[str]]:
        """The common state, put together when there are several."""
        first, *others = [self.commits[each].state[table] for each in tips] or [{}]
        undecided: set[str] = set()
        for other in others:
            start = self.commits[root].state[table] if root is not None else {}
            first, found = merge_rows(start, first, other, set(), None)
            undecided |= {row_id for _, row_id in found}
        return first, undecided

    def _visible(self) -> set[int]:
        return {each for history in self.branches.values() for each in history}

    def _parents(self, number: int) -> list[int]:
        commit = self.commits[number]
        return [each for each in (commit.parent, commit.merged) if each is not None and each in self._visible()]

    def _ancestors(self, number: int) -> set[int]:
        found, queue = {number}, [number]
        while queue:
            for parent in self._parents(queue.pop()):
                if parent not in found:
                    found.add(parent)
                    queue.append(parent)
        return found

    def _last(self, shared: set[int]) -> list[int]:
        older = {parent for each in shared for parent in self._parents(each)}
        return sorted(shared - older, reverse=True)


def merge_rows(
    base: Rows, ours: Rows, theirs: Rows, undecided: set[str], resolve: str | None
) -> tuple[Rows, set[tuple[str, str]]]:
    """One table. Rows that conflict stay as ours has them."""
    merged: Rows = {}
    told: set[tuple[str, str]] = set()
    for row_id in base.keys() | ours.keys() | theirs.keys():
        row, conflict = _merge_row(base.get(row_id), ours.get(row_id), theirs.get(row_id), row_id in undecided, resolve)
        if conflict is not None:
            told.add((conflict, row_id))
        if row is not None:
            merged[row_id] = row
    return merged, told


def _merge_row(
    base: Row | None, ours: Row | None, theirs: Row | None, undecided: bool, resolve: str | None
) -> tuple[Row | None, str | None]:
    if ours == theirs:
        return ours, None
    if not undecided:
        if theirs == base:
            return ours, None
        if ours == base:
            return theirs, None
    if undecided:
        kind, agreed, disputed = "DivergentUpdate", None, []
    elif base is not None and ours is not None and theirs is not None:
        agreed, disputed = _merge_properties(base, ours, theirs)
        if not disputed:
            return agreed, None
        kind = "DivergentUpdate"
    else:
        kind, agreed, disputed = "DivergentInsert" if base is None else "DeleteVsUpdate", None, []
    if resolve == "ours":
        return (agreed or ours), None
    if resolve == "theirs":
        return ({**agreed, **{name: theirs[name] for name in disputed}} if agreed and theirs else theirs), None
    return ours, kind


def _merge_properties(base: Row, ours: Row, theirs: Row) -> tuple[Row, list[str]]:
    agreed, disputed = dict(ours), []
    for name, value in theirs.items():
        if value in (base[name], ours[name]):
            continue
        if ours[name] == base[name]:
            agreed[name] = value
        else:
            disputed.append(name)
    return agreed, disputed


def orphans(state: State) -> Told:
    people = state["node:Person"]
    return {
        ("OrphanEdge", "edge:Knows", row_id)
        for row_id, edge in state["edge:Knows"].items()
        if edge["src"] not in people or edge["dst"] not in people
    }
