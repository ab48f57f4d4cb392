"""Bulk loads of `load/bulk` in this process: the same operation as on Spark, on the `LocalRunner`."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from omnigraph.load.bulk.operation import BulkLoad
from omnigraph.load.bulk.read import InputRead
from omnigraph.load.plan import FAIL, ErrorPolicy, plan_load
from omnigraph.tasks.local_runner import LocalRunner
from omnigraph.transaction.commit.protocol import Operation, commit

if TYPE_CHECKING:
    import omnigraph as og
    from omnigraph.tasks.runner import TaskRunner


class SmallTasks(LocalRunner):
    """Tasks with so little room that a few rows have several partitions, rounds of candidates and rounds of rows."""

    def setting(self, name: str) -> str | None:
        return {"numbersPerPart": "8", "smallLoad": "4", "rowsPerFile": "5"}.get(name)


def load_in_tasks(
    graph: og.Graph,
    source: object,
    mode: Any,
    *,
    shared: bool = True,
    runner: TaskRunner | None = None,
    policy: ErrorPolicy = FAIL,
) -> BulkLoad:
    """Load in tasks; hashes meet through files of a shared directory, or else through an exchange of packets."""
    runner, manifest = runner or LocalRunner(), graph._manifest
    plan = plan_load(source, graph.catalog, manifest.world)
    with runner.shared_directory() if shared else nullcontext() as directory:
        load = BulkLoad(InputRead(runner, graph.catalog, plan, mode, manifest.world, policy, directory))
        commit(manifest, Operation("Load", load.prepare, repeatable=load.is_repeatable))
    return load
