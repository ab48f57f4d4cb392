"""A change of schema, killed before every durable step: tables and schema are those before it or those after it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import omnigraph as og
from crash import schema_changes
from crash.schema_changes import AFTER, BEFORE, BESIDE_BRANCHES, seen
from crash.workloads import unsettled
from omnigraph.language.schema.arrow import table_arrow_schemas
from omnigraph.manifest.schema_files import STAGING

if TYPE_CHECKING:
    from crash.zygote import Zygote

pytestmark = pytest.mark.crash


class Scene:
    """A graph that is put back to its beginning for every cut."""

    def __init__(self, folder: Path, schema: str, branch: str | None = None) -> None:
        self.uri = str(folder / "graph.omni")
        self.schema = schema
        self._beginning, self._cut = folder / "beginning", folder / "cut"
        schema_changes.build(self.uri, branch)
        shutil.copytree(self.uri, self._beginning)
        self.before = seen(og.open(self.uri))
        og.open(self.uri).apply_schema(schema)
        self.after = seen(og.open(self.uri))

    def reset(self) -> None:
        _replace(Path(self.uri), self._beginning)

    def sweep(self, zygote: Zygote, failpoint: str, *, limit: int = 200) -> list[str]:
        """Every cut, looked at with a handle that was open all the time and with a new one; what was wrong."""
        wrong = []
        for cut in range(1, limit):
            self.reset()
            living = og.open(self.uri)
            child = zygote.start(schema_changes.change, self.uri, self.schema, failpoints=f"{failpoint}@{cut}")
            told = child.reports()
            if not child.outcome().killed and told == "done":
                assert cut > 5, "the failpoint was hardly reached"
                return wrong
            _replace(self._cut, Path(self.uri))
            wrong += [
                f"{failpoint}@{cut}, read-only: {each}" for each in self._wrong(og.open(self.uri, read_only=True))
            ]
            wrong += [f"{failpoint}@{cut}, living: {each}" for each in self._wrong(living)]
            living.refresh()
            wrong += [f"{failpoint}@{cut}, refreshed: {each}" for each in self._wrong(living, settled=True)]
            _replace(Path(self.uri), self._cut)
            wrong += [f"{failpoint}@{cut}, opened: {each}" for each in self._wrong(og.open(self.uri), settled=True)]
            wrong += [f"{failpoint}@{cut}, again: {each}" for each in self._cannot_go_on()]
        raise AssertionError("the change never came to its end")

    def _wrong(self, graph: og.Graph, *, settled: bool = False) -> list[str]:
        wrong = unsettled(graph) if settled else []
        now = seen(graph)
        for branch, tables in now.items():
            if tables not in (self.before[branch], self.after[branch]):
                wrong.append(f"{branch} is between two states")
            wrong += self._misread(graph, branch)
        if settled and now not in (self.before, self.after):
            wrong.append("it is neither before nor after")
        names = graph._manifest.stores.objects.list_names()
        return wrong + [each for each in names if settled and each.endswith(STAGING)]

    def _misread(self, graph: og.Graph, branch: str) -> list[str]:
        """The schema that a state is read with must be the one that its tables are in."""
        snapshot = graph.snapshot(branch=branch)
        catalog = graph._schemas.of(snapshot.schema).catalog
        wanted = {key: set(schema.names) for key, schema in table_arrow_schemas(catalog).items()}
        stores = graph._manifest.stores
        stored = {each.table_key: set(stores.tables.open(each.pin).schema.names) for each in snapshot}
        return [] if stored == wanted else [f"{branch} is read with another schema than its rows are in"]

    def _cannot_go_on(self) -> list[str]:
        """Whatever happened, the change can be made, and then there is nothing left of the accident."""
        graph = og.open(self.uri)
        graph.apply_schema(self.schema)
        return self._wrong(graph, settled=True) if seen(graph) == self.after else ["it cannot be made any more"]


def _replace(target: Path, source: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


def test_a_change_killed_at_every_step(tmp_path: Path, zygote: Zygote) -> None:
    assert Scene(tmp_path, AFTER).sweep(zygote, "store.write=kill") == []


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("failpoint", ["store.write=kill", "store.write=raise"])
@pytest.mark.parametrize(("schema", "branch"), [(AFTER, None), (BESIDE_BRANCHES, "side")])
def test_every_change_with_every_fault(
    tmp_path: Path, zygote: Zygote, schema: str, branch: str | None, failpoint: str
) -> None:
    assert Scene(tmp_path, schema, branch).sweep(zygote, failpoint) == []


def test_answers_that_are_lost_are_looked_up(tmp_path: Path, zygote: Zygote) -> None:
    scene = Scene(tmp_path, AFTER)
    for nth in (1, 3, 4):
        scene.reset()
        lost = f"table.committed=lost@{nth}"
        child = zygote.start(schema_changes.change, scene.uri, AFTER, failpoints=lost)
        assert child.reports() == "done", lost
        assert child.outcome().succeeded
        graph = og.open(scene.uri)
        assert seen(graph) == scene.after
        assert unsettled(graph) == []


def test_a_writer_in_another_process_goes_over_to_the_new_schema(tmp_path: Path, zygote: Zygote) -> None:
    """No row of the old shape lands after the change, and none that was acknowledged is lost."""
    uri = str(tmp_path / "graph.omni")
    schema_changes.build(uri)
    writer = zygote.start(schema_changes.keep_inserting, uri, 12)
    assert writer.reports() == 0
    changer = zygote.start(schema_changes.change, uri, AFTER)
    assert changer.reports() == "done"
    assert changer.outcome().succeeded
    told = writer.outcome().value
    graph = og.open(uri)
    people = graph.query("query q() { match { $h: Human } return { $h.name, $h.score } }").to_pylist()
    assert {each["h.name"] for each in people} == {"ada", "bo", *told}
    assert all(each["h.score"] in (1.5, 2.0) for each in people)
    assert unsettled(graph) == []
    assert len(told) >= 11


def test_what_is_dropped_for_good_is_gone_however_the_change_ended(tmp_path: Path, zygote: Zygote) -> None:
    uri = str(tmp_path / "graph.omni")
    schema_changes.build(uri)
    before = og.open(uri).commits()[0].id
    smaller = BEFORE.replace("node Gone { name: String @key }\n", "")
    assert zygote.run(schema_changes.change, uri, smaller, True, failpoints="schema.promoted=kill").killed
    graph = og.open(uri)
    assert graph.schema == smaller
    with pytest.raises(og.errors.NotFound):
        graph.query("query q() { match { $g: Gone } return { $g.name } }", snapshot=before)
    assert unsettled(graph) == []
