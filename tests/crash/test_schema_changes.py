"""A change of schema, killed before every durable step: tables and schema are those before it or those after it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

import omnigraph as og
from crash import schema_changes
from crash.schema_changes import AFTER, BEFORE, BESIDE_BRANCHES, seen
from crash.schema_scene import Scene
from crash.workloads import unsettled

if TYPE_CHECKING:
    from pathlib import Path

    from crash.zygote import Zygote

pytestmark = pytest.mark.crash


def scene(folder: Path, schema: str, branch: str | None = None) -> Scene:
    return Scene(
        folder,
        partial(schema_changes.build, branch=branch),
        schema_changes.change,
        (schema,),
        lambda graph: graph.apply_schema(schema),
    )


def test_a_change_killed_at_every_step(tmp_path: Path, zygote: Zygote) -> None:
    assert scene(tmp_path, AFTER, "side").sweep(zygote, "store.write=kill") == []


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("failpoint", ["store.write=kill", "store.write=raise"])
@pytest.mark.parametrize(("schema", "branch"), [(AFTER, None), (AFTER, "side"), (BESIDE_BRANCHES, "side")])
def test_every_change_with_every_fault(
    tmp_path: Path, zygote: Zygote, schema: str, branch: str | None, failpoint: str
) -> None:
    assert scene(tmp_path, schema, branch).sweep(zygote, failpoint) == []


def test_answers_that_are_lost_are_looked_up(tmp_path: Path, zygote: Zygote) -> None:
    place = scene(tmp_path, AFTER)
    for nth in (1, 3, 4):
        place.reset()
        lost = f"table.committed=lost@{nth}"
        child = zygote.start(schema_changes.change, place.uri, AFTER, failpoints=lost)
        assert child.reports() == "done", lost
        assert child.outcome().succeeded
        graph = og.open(place.uri)
        assert seen(graph) == place.after
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
        graph.query("query q() { match { $g: Gone } return { $g.name } }", at=before)
    assert unsettled(graph) == []
