"""Any sequence of mutations, on several branches, leaves what a few dictionaries say it leaves."""

from __future__ import annotations

import copy
import shutil
import tempfile
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, precondition, rule

import omnigraph as og
from mutation.conftest import SCHEMA, Social
from omnigraph import errors

NAMES = st.sampled_from(["ada", "bob", "cy", "dee", "eve", "o'neil"])
AGES = st.one_of(st.none(), st.integers(0, 150))


class Model:
    """One branch: people by name, and the ends of edges, of which there may be several alike."""

    def __init__(self) -> None:
        self.people: dict[str, int | None] = {}
        self.knows: list[tuple[str, str]] = []

    def delete(self, names: set[str]) -> None:
        self.people = {name: age for name, age in self.people.items() if name not in names}
        self.knows = [pair for pair in self.knows if not names & set(pair)]


class Mutations(RuleBasedStateMachine):
    branches = Bundle("branches")

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.mkdtemp()
        self.social = Social(og.init(f"{self.directory}/graph", schema=SCHEMA))
        self.models = {"main": Model()}
        self.made = 0

    @initialize(target=branches)
    def main(self) -> str:
        return "main"

    def do(self, branch: str, body: str, **params: Any) -> og.Mutated:
        return self.social.do(body, branch, **params)

    @rule(branch=branches, name=NAMES, age=AGES)
    def insert(self, branch: str, name: str, age: int | None) -> None:
        self.do(branch, f"insert Person {{ name: $n, age: {'null' if age is None else age} }}", n=name)
        self.models[branch].people[name] = age

    @rule(branch=branches, name=NAMES, age=AGES)
    def update_one(self, branch: str, name: str, age: int | None) -> None:
        assigned = "null" if age is None else age
        done = self.do(branch, f"update Person set {{ age: {assigned} }} where name = $n", n=name)
        model = self.models[branch].people
        assert done.affected_nodes == (name in model)
        if name in model:
            model[name] = age

    @rule(branch=branches, limit=st.integers(0, 149))
    def everyone_grows_older(self, branch: str, limit: int) -> None:
        model = self.models[branch].people
        grown = {name: age + 1 for name, age in model.items() if age is not None and age <= limit}
        done = self.do(branch, f"update Person set {{ age: age + 1 }} where age <= {limit}")
        assert done.affected_nodes == len(grown)
        model.update(grown)

    @rule(branch=branches, source=NAMES, end=NAMES)
    def insert_edge(self, branch: str, source: str, end: str) -> None:
        model = self.models[branch]
        if source in model.people and end in model.people:
            self.do(branch, "insert Knows { from: $a, to: $b }", a=source, b=end)
            model.knows.append((source, end))
            return
        with pytest.raises(errors.OrphanEdge):
            self.do(branch, "insert Knows { from: $a, to: $b }", a=source, b=end)

    @rule(branch=branches, names=st.lists(NAMES, min_size=1, max_size=3))
    def several_at_once(self, branch: str, names: list[str]) -> None:
        model = self.models[branch]
        statements = [f'insert Person {{ name: "{name}", age: 1 }}' for name in names]
        statements += [f'insert Knows {{ from: "{names[0]}", to: "{name}" }}' for name in names]
        self.do(branch, " ".join([*statements, "update Person set { age: age + 1 } where age = 1"]))
        model.people.update(dict.fromkeys(names, 1))
        model.people.update({name: 2 for name, age in model.people.items() if age == 1})
        model.knows += [(names[0], name) for name in names]

    @rule(branch=branches, name=NAMES)
    def delete_one(self, branch: str, name: str) -> None:
        model = self.models[branch]
        edges = len([pair for pair in model.knows if name in pair])
        done = self.do(branch, "delete Person where name = $n", n=name)
        assert (done.affected_nodes, done.affected_edges) == ((1, edges) if name in model.people else (0, 0))
        model.delete({name})

    @rule(branch=branches, source=NAMES)
    def delete_edges(self, branch: str, source: str) -> None:
        model = self.models[branch]
        done = self.do(branch, "delete Knows where from = $n", n=source)
        assert done.affected_edges == len([pair for pair in model.knows if pair[0] == source])
        model.knows = [pair for pair in model.knows if pair[0] != source]

    @precondition(lambda self: len(self.models) < 4)
    @rule(target=branches, source=branches)
    def branch(self, source: str) -> Any:
        self.made += 1
        name = f"b{self.made}"
        self.social.graph.branches.create(name, from_=source)
        self.models[name] = copy.deepcopy(self.models[source])
        return multiple(name)

    @rule()
    def reopen(self) -> None:
        self.social = Social(og.open(self.social.graph.uri))

    @invariant()
    def the_graph_is_as_the_model_says(self) -> None:
        for branch, model in self.models.items():
            people = {name: row["age"] for name, row in self.social.people(branch).items()}
            assert people == model.people
            assert self.social.ends("edge:Knows", branch) == sorted(model.knows)

    def teardown(self) -> None:
        shutil.rmtree(self.directory)


QUICK = settings(
    max_examples=2, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)
LONG = settings(QUICK, max_examples=8, stateful_step_count=200)


class TestMutations(Mutations.TestCase):  # type: ignore[misc]
    settings = QUICK


@pytest.mark.slow
class TestManyMutations(Mutations.TestCase):  # type: ignore[misc]
    settings = LONG
