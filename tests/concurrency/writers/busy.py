"""Many writers, killed at random, and openers, on one graph: what each does, and what must hold at the end."""

from __future__ import annotations

import random  # noqa: TID251
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crash.zygote_process import report
from omnigraph.errors import OmniGraphError
from omnigraph.manifest.layout import MAIN
from omnigraph.transaction.commit.protocol import commit
from omnigraph.transaction.recovery.outcome import sweep
from omnigraph.world import REAL
from transaction.recovery.hand_made import TABLES, chain, content, insert, reopen, require_settled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crash.zygote import Child, Zygote
    from omnigraph.manifest.graph_manifest import GraphManifest


@dataclass
class Told:
    """What the writers have told: commits by row id, the tables of every row that was begun, and errors."""

    acknowledged: dict[str, str] = field(default_factory=dict)
    begun: dict[str, tuple[str, ...]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)


def keep_writing(uri: str, name: str, commits: int, branch: str = MAIN) -> None:
    """Insert rows into one or several tables, telling of each before and after."""
    choice = random.Random(name)
    graph = reopen(uri)
    for number in range(commits):
        row = f"{name}-{number}"
        tables = TABLES if choice.random() < 0.3 else (choice.choice(TABLES),)
        report(("begun", row, tables))
        try:
            receipt = commit(graph, insert(row, tables, branch=branch))
        except OmniGraphError as error:
            report(("error", row, f"{type(error).__name__}: {error}"))
            continue
        assert receipt is not None
        report(("acknowledged", row, receipt.commit.id))


def keep_opening(uri: str, seconds: float) -> int:
    """Open for writing, recover what is dead, and begin again; how often."""
    opens = 0
    end = REAL.monotonic() + seconds
    while REAL.monotonic() < end:
        sweep(reopen(uri))
        opens += 1
        REAL.sleep(0.02)
    return opens


def listen(children: Sequence[Child], told: Told) -> None:
    """Take in all that children tell until they end."""
    for child in children:
        while (what := child.reports()) is not None:
            kind, row, value = what
            if kind == "error":
                told.errors.append(f"{row}: {value}")
            else:
                getattr(told, kind)[row] = value
        child.outcome()


def require_true_to(told: Told, graph: GraphManifest, branch: str = MAIN) -> None:
    """Everything acknowledged is there, everything else is wholly there or wholly absent, in one line of history."""
    found = content(graph, branch)
    commits = set(chain(graph, branch))
    assert set(told.acknowledged.values()) <= commits
    assert len(set(told.acknowledged.values())) == len(told.acknowledged)
    for row, tables in told.begun.items():
        where = {table_key for table_key in TABLES if row in found[table_key]}
        allowed = [set(tables)] if row in told.acknowledged else [set(), set(tables)]
        assert where in allowed, f"{row} was meant for {tables} and is in {where}"
    strays = {row for rows in found.values() for row in rows} - told.begun.keys()
    assert strays == set()
    require_settled(graph, branch)


def run(zygote: Zygote, uri: str, *, writers: int, commits: int, kills: int, every: float) -> Told:
    """Let writers work, killing two at random every so many seconds and starting others in their place."""
    told = Told()
    choice = random.Random(7)
    names = iter(f"w{number}" for number in range(10_000))
    ended: list[Child] = []
    working = [zygote.start(keep_writing, uri, next(names), commits) for _ in range(writers)]
    opener = zygote.start(keep_opening, uri, kills * every + 2)
    for _ in range(kills):
        REAL.sleep(every)
        for victim in choice.sample(working, 2):
            victim.kill()
            working.remove(victim)
            ended.append(victim)
            working.append(zygote.start(keep_writing, uri, next(names), commits))
    listen([*ended, *working], told)
    assert opener.outcome().value > 0
    return told
