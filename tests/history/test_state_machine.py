"""Random histories of branches, writes, merges and reverts, held against a model on dictionaries after every step."""

from __future__ import annotations

import random  # noqa: TID251
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest

import omnigraph as og
from history.model import TABLES, Model, State, merge_rows, orphans
from omnigraph import errors

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = """
node Person { name: String @key  age: I32?  city: String? }
edge Knows: Person -> Person { since: I32?  @key(src, dst) }
"""
NAMES = "abcdef"
STEPS = 14
FEW = range(15)
MANY = range(500)


class Machine:
    """A graph and its model, and steps that do the same to both."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.graph = og.init(folder / "graph", schema=SCHEMA)
        self.model = Model()
        self.model.begin({table: {} for table in TABLES})
        self.ids: dict[int, str] = {0: self.graph.commits()[0].id}
        self.made = 0
        self.told: list[str] = []

    def run(self, steps: int) -> None:
        for name in NAMES[:4]:
            self._write("main", f'insert Person {{ name: "{name}", age: 1 }}', _put_person(name, 1))
        for _ in range(steps):
            step = self.chance.choice([self.write, self.write, self.write, self.branch, self.merge, self.merge,
                                       self.merge, self.delete_branch, self.revert])  # fmt: skip
            step()
            self.check()
        self.check_history()

    def write(self) -> None:
        branch, name, other = self._branch(), self.chance.choice(NAMES), self.chance.choice(NAMES)
        state, number = self.model.state(branch), self.chance.randrange(3)
        # Keys are written in the order of their names: dst, src.
        people, edge = state["node:Person"], f'["{other}","{name}"]'
        if name not in people:
            self._write(branch, f'insert Person {{ name: "{name}", age: {number} }}', _put_person(name, number))
        elif self.chance.random() < 0.3:
            self._write(branch, f'delete Person where name = "{name}"', lambda at: _remove_person(at, name))
        elif self.chance.random() < 0.5:
            kind, value = self.chance.choice([("age", str(number)), ("city", f'"{number}"')])
            change = {kind: number if kind == "age" else str(number)}
            self._write(
                branch,
                f'update Person set {{ {kind}: {value} }} where name = "{name}"',
                lambda at: at["node:Person"][name].update(change),
            )
        elif edge in state["edge:Knows"]:
            body = f'delete Knows where from = "{name}" and to = "{other}"'
            self._write(branch, body, lambda at: at["edge:Knows"].pop(edge))
        elif other in people:
            row = {"src": name, "dst": other, "since": number}
            body = f'insert Knows {{ from: "{name}", to: "{other}", since: {number} }}'
            self._write(branch, body, lambda at: at["edge:Knows"].update({edge: row}))

    def branch(self) -> None:
        if len(self.model.branches) > 3:
            return
        source, name = self._branch(), f"b{self.made}"
        self.made += 1
        self.told.append(f"branch {name} from {source}")
        self.graph.branches.create(name, from_=source)
        self.model.branches[name] = list(self.model.branches[source])

    def delete_branch(self) -> None:
        name = self._branch()
        try:
            self.graph.branches.delete(name)
        except errors.BranchInUse:
            return
        self.told.append(f"delete {name}")
        del self.model.branches[name]

    def merge(self) -> None:
        source, target = self._branch(), self._branch()
        if source == target:
            return
        resolve: Any = self.chance.choice([None, "ours", "theirs"])
        kind, state, conflicts = self.model.merge(source, target, resolve)
        self.told.append(f"merge {source} into {target}, {resolve}: {kind} {conflicts or ''}")
        if conflicts:
            with pytest.raises(errors.MergeConflicts) as refusal:
                self.graph.merge(source, into=target, resolve=resolve)
            found = {(each.kind, each.table_key, each.row_id) for each in refusal.value.conflicts}
            assert found == conflicts, self.story()
            return
        done = self.graph.merge(source, into=target, resolve=resolve)
        assert done.kind == kind, self.story()
        if done.commit is not None:
            self.model.commit(target, state, self.model.branches[source][-1])
            self.ids[len(self.model.commits) - 1] = done.commit.id

    def revert(self) -> None:
        branch = self._branch()
        number = self.chance.choice(self.model.branches[branch])
        commit = self.model.commits[number]
        if commit.parent is None:
            return
        after, before, now = commit.state, self.model.commits[commit.parent].state, self.model.state(branch)
        state: State = {}
        conflicts = set()
        for table in TABLES:
            state[table], found = merge_rows(after[table], now[table], before[table], set(), None)
            conflicts |= {(kind, table, row_id) for kind, row_id in found}
        conflicts = conflicts or orphans(state)
        self.told.append(f"revert {number} on {branch}: {conflicts or ''}")
        if conflicts:
            with pytest.raises(errors.RevertConflicts) as refusal:
                self.graph.revert(self.ids[number], branch=branch)
            found_conflicts = {(each.kind, each.table_key, each.row_id) for each in refusal.value.conflicts}
            assert found_conflicts == conflicts, self.story()
            return
        made = self.graph.revert(self.ids[number], branch=branch).commit
        assert (made is None) == (state == now), self.story()
        if made is not None:
            self.model.commit(branch, state)
            self.ids[len(self.model.commits) - 1] = made.id

    def check(self) -> None:
        for branch in self.model.branches:
            assert self.seen(branch=branch) == self.model.state(branch), f"{branch}\n{self.story()}"

    def check_history(self) -> None:
        """Old states, diffs between any two of them, and the change feed tell what the model knows."""
        visible = sorted({each for history in self.model.branches.values() for each in history})
        for number in self.chance.sample(visible, min(5, len(visible))):
            assert self.seen(at=self.ids[number]) == self.model.commits[number].state, self.story()
            other = self.chance.choice(visible)
            assert self._diff(number, other) == _differences(
                self.model.commits[number].state, self.model.commits[other].state
            ), self.story()
        branch = self._branch()
        copy: State = {table: {} for table in TABLES}
        for change in self.graph.changes(branch=branch, since="beginning", limit=10_000):
            rows = copy[change.table_key]
            assert (change.before is not None) == (change.id in rows)
            rows.pop(change.id, None)
            if change.after is not None:
                ends = {} if change.kind == "node" else {"src": change.after.source, "dst": change.after.target}
                held = {name: value for name, value in change.after.properties.items() if name != "name"}
                rows[change.id] = {**ends, **held}
        assert copy == self.model.state(branch), self.story()

    def seen(self, **state: Any) -> State:
        snapshot = self.graph.snapshot(**state)
        return {table: self._rows(snapshot[table]) for table in TABLES}

    def story(self) -> str:
        return "\n".join(self.told)

    def _rows(self, entry: Any) -> dict[str, Any]:
        rows = self.graph._manifest.stores.tables.open(entry.pin).read().to_pylist()
        return {row["id"]: {name: row[name] for name in row if name not in ("id", "name")} for row in rows}

    def _diff(self, one: int, other: int) -> set[tuple[str, str, str]]:
        return {
            (table.table_key, op, row_id)
            for table in self.graph.diff(self.ids[one], self.ids[other])
            for op, rows in (("+", table.inserted), ("-", table.deleted), ("~", table.updated[1]))
            for row_id in map(str, rows.column("id").to_pylist())
        }

    def _branch(self) -> str:
        return self.chance.choice(sorted(self.model.branches))

    def _write(self, branch: str, body: str, effect: Any) -> None:
        self.told.append(f"{branch}: {body}")
        state = deepcopy(self.model.state(branch))
        effect(state)
        made = self.graph.mutate(f"query q() {{ {body} }}", branch=branch).commit
        assert made is not None
        self.model.commit(branch, state)
        self.ids[len(self.model.commits) - 1] = made.id


def _put_person(name: str, age: int) -> Any:
    return lambda state: state["node:Person"].update({name: {"age": age, "city": None}})


def _remove_person(state: State, name: str) -> None:
    del state["node:Person"][name]
    edges = state["edge:Knows"]
    for row_id in [each for each, row in edges.items() if name in (row["src"], row["dst"])]:
        del edges[row_id]


def _differences(one: State, other: State) -> set[tuple[str, str, str]]:
    found = set()
    for table in TABLES:
        before, after = one[table], other[table]
        found |= {(table, "+", each) for each in after.keys() - before.keys()}
        found |= {(table, "-", each) for each in before.keys() - after.keys()}
        found |= {(table, "~", each) for each in before.keys() & after.keys() if before[each] != after[each]}
    return found


@pytest.mark.parametrize("seed", FEW)
def test_a_random_history(tmp_path: Path, seed: int) -> None:
    Machine(tmp_path, seed).run(STEPS)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_many_random_histories(tmp_path: Path) -> None:
    for seed in MANY:
        (tmp_path / str(seed)).mkdir()
        Machine(tmp_path / str(seed), 1_000 + seed).run(2 * STEPS)
