"""A branch takes main's schema with a merge, killed before every durable step: it is in one schema, or in the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import omnigraph as og
from crash import schema_changes
from crash.schema_changes import AFTER, seen
from crash.schema_scene import Scene
from crash.workloads import unsettled

if TYPE_CHECKING:
    from pathlib import Path

    from crash.zygote import Zygote

pytestmark = pytest.mark.crash


def scene(folder: Path) -> Scene:
    """`past` is behind main; of its tables one is moved, one rewritten, one made, one dropped."""
    return Scene(folder, schema_changes.build_behind, schema_changes.take, (), _take)


def _take(graph: og.Graph) -> None:
    graph.merge("main", into="past")
    assert graph.schema == AFTER


def test_a_branch_that_takes_a_schema_is_killed_at_some_steps(tmp_path: Path, zygote: Zygote) -> None:
    assert scene(tmp_path).sweep(zygote, "store.write=kill", every=4) == []


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("failpoint", ["store.write=kill", "store.write=raise"])
def test_a_branch_that_takes_a_schema_is_cut_at_every_step(tmp_path: Path, zygote: Zygote, failpoint: str) -> None:
    assert scene(tmp_path).sweep(zygote, failpoint) == []


def test_answers_that_are_lost_are_looked_up(tmp_path: Path, zygote: Zygote) -> None:
    place = scene(tmp_path)
    for nth in (1, 2):
        place.reset()
        child = zygote.start(schema_changes.take, place.uri, failpoints=f"table.committed=lost@{nth}")
        assert child.reports() == "done"
        assert child.outcome().succeeded
        graph = og.open(place.uri)
        assert seen(graph) == place.after
        assert unsettled(graph) == []


def test_a_branch_can_be_written_to_after_a_merge_that_died_and_was_made_again(tmp_path: Path, zygote: Zygote) -> None:
    place = scene(tmp_path)
    place.reset()
    assert zygote.run(schema_changes.take, place.uri, failpoints="commit.table_landed=kill@2").killed
    graph = og.open(place.uri)
    graph.merge("main", into="past")
    graph.mutate('query q() { insert Human { name: "last", score: 1.0 } insert Tag { label: "t" } }', branch="past")
    assert graph.snapshot(branch="past")["node:Human"].row_count == 5
    assert unsettled(graph) == []


def test_a_writer_to_the_branch_in_another_process_goes_over_to_the_new_schema(tmp_path: Path, zygote: Zygote) -> None:
    """No row of the old shape lands after the merge, and none that was acknowledged is lost."""
    uri = str(tmp_path / "graph.omni")
    schema_changes.build_behind(uri)
    writer = zygote.start(schema_changes.keep_inserting_behind, uri, 12)
    assert writer.reports() == 0
    merger = zygote.start(schema_changes.take, uri)
    assert merger.reports() == "done"
    assert merger.outcome().succeeded
    told = writer.outcome().value
    graph = og.open(uri)
    people = graph.query("query q() { match { $h: Human } return { $h.name } }", branch="past").to_pylist()
    assert {each["h.name"] for each in people} == {"ada", "bo", "dan", "eve", *told}
    assert unsettled(graph) == []
    assert len(told) >= 10
