"""Any sequence of writes, branches and upkeep leaves the answers of all kept commits as a model of sets has them."""

from __future__ import annotations

import datetime as dt
import tempfile
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import omnigraph as og
from omnigraph.errors import VersionReclaimed
from omnigraph.storage.tables.compaction import CompactionPolicy

SCHEMA = "node Item { name: String @key  value: I32? @index  text: String? @index }\n"
PUT = "query q($n: String, $v: I32, $t: String) { insert Item { name: $n, value: $v, text: $t } }"
SET = "query q($n: String, $v: I32) { update Item set { value: $v } where name = $n }"
DROP = "query q($n: String) { delete Item where name = $n }"
ALL = "query q() { match { $i: Item } return { $i.name, $i.value } }"
BY_VALUE = "query q($v: I32) { match { $i: Item { value: $v } } return { $i.name } }"

Content = dict[str, int]
NAMES = st.sampled_from([f"n{each}" for each in range(8)])
VALUES = st.integers(0, 5)


class Upkeep(RuleBasedStateMachine):
    """A graph beside dicts: one per branch, and one per commit that has to stay readable."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.graph = og.init(f"{self.folder.name}/graph", schema=SCHEMA)
        self.graph._manifest.minor_compaction = CompactionPolicy(fragments=3)
        self.branches: dict[str, Content] = {"main": {}}
        self.states: dict[str, Content] = {self.graph.commits()[0].id: {}}
        self.tagged: set[str] = set()

    def teardown(self) -> None:
        self.folder.cleanup()

    def pick(self, data: Any) -> str:
        return str(data.draw(st.sampled_from(sorted(self.branches))))

    def noted(self, commit: Any, branch: str) -> None:
        if commit is not None:
            self.states[commit.id] = dict(self.branches[branch])

    @rule(data=st.data(), name=NAMES, value=VALUES)
    def put(self, data: Any, name: str, value: int) -> None:
        branch = self.pick(data)
        content = self.branches[branch]
        if name in content:
            done = self.graph.mutate(SET, {"n": name, "v": value}, branch=branch)
        else:
            done = self.graph.mutate(PUT, {"n": name, "v": value, "t": f"word{value}"}, branch=branch)
        content[name] = value
        self.noted(done.commit, branch)

    @rule(data=st.data(), name=NAMES)
    def drop(self, data: Any, name: str) -> None:
        branch = self.pick(data)
        done = self.graph.mutate(DROP, {"n": name}, branch=branch)
        self.branches[branch].pop(name, None)
        self.noted(done.commit, branch)

    @precondition(lambda self: len(self.branches) < 3)
    @rule(data=st.data())
    def branch(self, data: Any) -> None:
        parent = self.pick(data)
        name = f"b{len(self.states)}x{len(self.branches)}"
        if name not in self.branches:
            self.graph.branches.create(name, from_=parent)
            self.branches[name] = dict(self.branches[parent])

    @rule(data=st.data())
    def optimize(self, data: Any) -> None:
        branch = self.pick(data)
        report = self.graph.optimize(branch=branch)
        assert [each.error for each in report.tables if each.error] == []
        self.noted(report.commit, branch)

    @rule()
    def reopen(self) -> None:
        self.graph = og.open(self.graph.uri)

    @rule(data=st.data())
    def tag(self, data: Any) -> None:
        commit = self.graph.commits(branch=self.pick(data))[0].id
        if commit not in self.tagged:
            self.graph.tags.create(f"t{len(self.tagged)}", commit)
            self.tagged.add(commit)

    @rule(keep=st.integers(1, 4))
    def cleanup(self, keep: int) -> None:
        report = self.graph.cleanup(keep=keep, grace=dt.timedelta(0))
        assert [each.error for each in report.tables if each.error] == []
        kept = {each.id for branch in self.branches for each in self.graph.commits(branch=branch)[:keep]}
        self.states = {each: content for each, content in self.states.items() if each in kept | self.tagged}

    @invariant()
    def branches_read_as_the_model_has_them(self) -> None:
        for branch, content in getattr(self, "branches", {}).items():
            assert _content(self.graph.query(ALL, branch=branch)) == content
            found = self.graph.query(BY_VALUE, {"v": 3}, branch=branch).to_pylist()
            assert sorted(each["i.name"] for each in found) == sorted(key for key, each in content.items() if each == 3)

    @invariant()
    def kept_commits_read_as_they_were(self) -> None:
        for commit, content in list(getattr(self, "states", {}).items())[-6:]:
            try:
                assert _content(self.graph.query(ALL, at=commit)) == content
            except VersionReclaimed as error:
                raise AssertionError(f"the kept commit {commit} is gone") from error


def _content(result: Any) -> Content:
    return {each["i.name"]: each["i.value"] for each in result.to_pylist()}


def _run(examples: int, steps: int) -> None:
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    chosen = settings(max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=checks)
    run_state_machine_as_test(Upkeep, settings=chosen)


def test_a_few_short_lives() -> None:
    _run(examples=2, steps=12)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_many_long_lives() -> None:
    _run(examples=40, steps=40)
