"""Workloads of up to three operations, killed before every durable step: all of an operation is there, or none."""

from __future__ import annotations

import itertools
import random  # noqa: TID251
from typing import TYPE_CHECKING

import pytest

import omnigraph as og
from crash import workloads
from crash.sweeping import Scene, sweep_all
from crash.workloads import OPERATIONS, seen, unsettled

if TYPE_CHECKING:
    from pathlib import Path

    from crash.zygote import Zygote

pytestmark = pytest.mark.crash

BOUNDED = [
    ("insert_in_three_tables",),
    ("first_write_to_a_branch",),
    ("delete", "create_branch"),
    ("merge",),
    ("merge_in_partitions",),
    ("revert", "tag"),
    ("insert_in_three_tables", "merge_from_main"),
    ("insert", "catch_up"),
]
TRIPLES = 30
COMMON = ("insert", "update", "delete", "load", "change_schema", "create_branch", "merge", "optimize")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(str(tmp_path / "graph.omni"))


def test_a_few_workloads_killed_at_every_step(scene: Scene, zygote: Zygote) -> None:
    sweep_all(scene, zygote, BOUNDED)


def test_lost_acknowledgements_instead_of_kills(scene: Scene, zygote: Zygote) -> None:
    sweep_all(scene, zygote, [("insert_in_three_tables",)], "table.committed=lost")


def test_failures_instead_of_kills(scene: Scene, zygote: Zygote) -> None:
    sweep_all(scene, zygote, [("insert_in_three_tables",)], "store.write=raise")


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("first", OPERATIONS)
def test_every_operation_and_every_pair_killed_at_every_step(scene: Scene, zygote: Zygote, first: str) -> None:
    sweep_all(scene, zygote, [(first,), *((first, second) for second in OPERATIONS)])


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_a_merge_in_partitions_after_every_operation_killed_at_every_step(scene: Scene, zygote: Zygote) -> None:
    sweep_all(scene, zygote, [(first, "merge_in_partitions") for first in OPERATIONS])


@pytest.mark.slow
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("first", COMMON)
def test_every_triple_of_the_common_operations_killed_at_every_step(scene: Scene, zygote: Zygote, first: str) -> None:
    sweep_all(scene, zygote, [(first, *others) for others in itertools.product(COMMON, repeat=2)])


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_some_of_the_triples_killed_at_every_step(scene: Scene, zygote: Zygote) -> None:
    triples = list(itertools.product(OPERATIONS, repeat=3))
    sweep_all(scene, zygote, random.Random(4).sample(triples, TRIPLES))


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("failpoint", ["table.committed=lost", "store.write=raise"])
def test_every_operation_with_other_faults(scene: Scene, zygote: Zygote, failpoint: str) -> None:
    sweep_all(scene, zygote, [(each,) for each in OPERATIONS], failpoint)


def test_kills_while_another_process_goes_on_writing(scene: Scene, zygote: Zygote) -> None:
    """It is never blocked, and loses nothing, whatever happens to its neighbour."""
    other = zygote.start(workloads.keep_inserting, scene.uri, 12)
    cuts = 0
    for cut in range(1, 7):
        cuts += zygote.run(
            workloads.run, scene.uri, ("insert_in_three_tables",), failpoints=f"store.write=kill@{cut}"
        ).killed
    assert other.outcome().value == 12
    graph = og.open(scene.uri)
    assert unsettled(graph) == []
    people = {dict(row)["name"] for row in seen(graph)["main"]["node:Person"]}
    assert {f"other-{number}" for number in range(12)} <= people
    whole = [
        {end in {dict(row)[column] for row in seen(graph)["main"][table]} for table, column in _PLACES}
        for end in ("three-0",)
    ]
    assert all(len(each) == 1 for each in whole)
    print(f"{cuts} kills beside a living writer, 0 violations")


_PLACES = (("node:Person", "name"), ("edge:Knows", "src"), ("edge:LivesIn", "src"))
