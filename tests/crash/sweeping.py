"""One workload, cut before each durable step: afterwards the graph is as before or after one of its operations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import omnigraph as og
from crash import workloads
from crash.graph_copies import neighbour, replace_graph
from crash.workloads import EVERY, Seen, seen, unsettled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crash.zygote import Zygote


@dataclass
class Tally:
    """What was tried, and what went wrong."""

    workloads: int = 0
    cuts: int = 0
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.workloads} workloads × {self.cuts} cuts, {len(self.violations)} violations"


class Scene:
    """A graph that is put back to its beginning for every cut, always at the same place: forks know where they lie."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._beginning = neighbour(uri, "beginning")
        self._after_the_cut = neighbour(uri, "after-the-cut")
        workloads.build(uri)
        replace_graph(self._beginning, uri)

    def reset(self) -> None:
        replace_graph(self.uri, self._beginning)

    def keep_cut(self) -> None:
        replace_graph(self._after_the_cut, self.uri)

    def back_to_cut(self) -> None:
        replace_graph(self.uri, self._after_the_cut)

    def states(self, workload: Sequence[str]) -> list[Seen]:
        """What a reader sees before the workload, and after each of its operations."""
        self.reset()
        graph = og.open(self.uri)
        found = [seen(graph)]
        for number, name in enumerate(workload):
            EVERY[name](graph, number)
            found.append(seen(graph))
        return found


def sweep_workload(
    scene: Scene, zygote: Zygote, workload: Sequence[str], tally: Tally, failpoint: str = "store.write=kill"
) -> None:
    """Cut a workload at every place where the failpoint is reached."""
    states = scene.states(workload)
    tally.workloads += 1
    cut = 0
    while True:
        cut += 1
        scene.reset()
        living = og.open(scene.uri)
        done, ended = _run(zygote, scene.uri, workload, f"{failpoint}@{cut}")
        if ended:
            return
        tally.cuts += 1
        allowed = states[done : done + 2]
        name = f"{' + '.join(workload)}, {failpoint}@{cut}"
        scene.keep_cut()
        tally.violations += [f"{name}, living handle: {each}" for each in _wrong_while_living(living, allowed)]
        scene.back_to_cut()
        tally.violations += [f"{name}, re-opened: {each}" for each in _wrong_after_open(scene.uri, allowed)]


def sweep_all(
    scene: Scene, zygote: Zygote, these: Sequence[tuple[str, ...]], failpoint: str = "store.write=kill"
) -> None:
    """Cut several workloads everywhere; nothing may go wrong."""
    tally = Tally()
    for workload in these:
        sweep_workload(scene, zygote, workload, tally, failpoint)
    print(tally)
    assert tally.cuts > 0
    assert tally.violations == []


def _run(zygote: Zygote, uri: str, workload: Sequence[str], failpoints: str) -> tuple[int, bool]:
    """How many operations were acknowledged, and whether the workload came to its end."""
    child = zygote.start(workloads.run, uri, tuple(workload), failpoints=failpoints)
    told = []
    while (what := child.reports()) is not None:
        told.append(what)
    outcome = child.outcome()
    failed = bool(told) and "failed" in told[-1]
    done = len(told) - failed
    return done, not outcome.killed and not failed and done == len(workload) and not _was_hurt(failpoints)


def _was_hurt(failpoints: str) -> bool:
    """A lost answer is survived: such a sweep ends by itself after a fixed number of places."""
    name, _, nth = failpoints.rpartition("@")
    return name.endswith("=lost") and int(nth) <= 6


def _wrong_while_living(graph: og.Graph, allowed: list[Seen]) -> list[str]:
    """A handle that was open all the time writes to every table: whatever is in its way is dealt with."""
    wrong = [] if seen(graph) in allowed else ["a reader sees a state between two"]
    _write_everywhere(graph)
    graph.refresh()
    return wrong + _wrong(graph, allowed)


def _wrong_after_open(uri: str, allowed: list[Seen]) -> list[str]:
    graph = og.open(uri)
    wrong = [] if seen(graph) in allowed else ["it is neither before nor after"]
    wrong += unsettled(graph)
    _write_everywhere(graph)
    return wrong + _wrong(graph, allowed)


def _write_everywhere(graph: og.Graph) -> None:
    for branch in ("main", "fresh"):
        graph.mutate(
            'query q() { insert Person { name: "last" } insert Knows { from: "last", to: "last" } '
            'insert City { name: "Last" } insert LivesIn { from: "last", to: "Last" } }',
            branch=branch,
        )


def _wrong(graph: og.Graph, allowed: list[Seen]) -> list[str]:
    """After the last write: settled, and apart from its rows as before."""
    wrong = unsettled(graph)
    without = {
        branch: {key: frozenset(row for row in rows if not _is_last(row)) for key, rows in tables.items()}
        for branch, tables in seen(graph).items()
    }
    return wrong if without in allowed else [*wrong, "after the next write it is neither before nor after"]


def _is_last(row: tuple[tuple[str, object], ...]) -> bool:
    return any(value in ("last", "Last") for _, value in row)
