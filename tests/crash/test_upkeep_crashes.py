"""Upkeep killed before every durable step: readers see what they saw before, and the next write works."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pytest

import omnigraph as og
from crash import workloads
from crash.sweeping import Scene, sweep_all
from crash.workloads import UPKEEP, seen, unsettled

if TYPE_CHECKING:
    from pathlib import Path

    from crash.zygote import Zygote

pytestmark = pytest.mark.crash

OTHERS = ("insert_in_three_tables", "update", "delete", "first_write_to_a_branch", "merge")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(str(tmp_path / "graph.omni"))


def test_a_write_that_folds_killed_at_every_step(scene: Scene, zygote: Zygote) -> None:
    sweep_all(scene, zygote, [("insert_and_fold",)])


def test_optimizing_a_branch_killed_at_every_step(scene: Scene, zygote: Zygote) -> None:
    sweep_all(scene, zygote, [("optimize_a_branch",)])


@pytest.mark.slow
def test_a_cleanup_killed_at_every_step(scene: Scene, zygote: Zygote) -> None:
    sweep_all(scene, zygote, [("cleanup",)])


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("operation", UPKEEP)
def test_all_upkeep_before_and_after_other_operations_killed_at_every_step(
    scene: Scene, zygote: Zygote, operation: str
) -> None:
    before = [(operation, each) for each in (*OTHERS, *UPKEEP) if each != operation]
    sweep_all(scene, zygote, [(operation,), *before, *((each, operation) for each in OTHERS)])


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("failpoint", ["table.committed=lost", "store.write=raise"])
def test_all_upkeep_with_other_faults(scene: Scene, zygote: Zygote, failpoint: str) -> None:
    sweep_all(scene, zygote, [("insert_and_fold",), ("optimize",), ("cleanup",), ("insert", "optimize")], failpoint)


def test_a_repair_killed_at_every_step_can_be_run_again(scene: Scene, zygote: Zygote) -> None:
    graph = og.open(scene.uri)
    person = graph.snapshot()["node:Person"]
    before = seen(graph)
    lance.dataset(graph._manifest.stores.tables.uri(person.path)).delete("name = 'victim'")
    lance.dataset(graph._manifest.stores.tables.uri(graph.snapshot()["node:City"].path)).delete("false")
    scene.keep_cut()
    cut = 0
    while True:
        cut += 1
        scene.back_to_cut()
        child = zygote.start(workloads.force_repair, scene.uri, failpoints=f"store.write=kill@{cut}")
        killed = child.outcome().killed
        fresh = og.open(scene.uri)
        after = {"victim"} - {dict(row)["name"] for row in seen(fresh)["main"]["node:Person"]}
        assert seen(fresh) == before or after
        fresh.repair(confirm=True, force=True)
        assert unsettled(fresh) == []
        assert "victim" not in {dict(row)["name"] for row in seen(fresh)["main"]["node:Person"]}
        fresh.mutate('query q() { insert Person { name: "last" } }')
        if not killed:
            break
    assert cut > 3
