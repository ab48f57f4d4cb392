"""Places where cases are played: each has a graph of its own, which is put back to its beginning for every case.

A fork of a table knows where it lies, so a graph with branches is copied back to where it was built, never elsewhere.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import lance

import omnigraph as og
from crash.graph_copies import neighbour, replace_graph
from crash.suspension.look import Seen, look
from crash.suspension.operations import VICTIM, act_of, build
from crash.suspension.work import Answer, answer_of
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.objects.store import open_control_store
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Sequence

DRIFTED = "node:City"
_THREADS = 8


class Lane:
    """One graph at one place. `drift`: another program has compacted a table of it, which `repair` takes in."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        build(uri)
        self._beginning = _Objects(uri) if "://" in uri else _Files(uri)

    def reset(self, *, drift: bool = False) -> None:
        self._beginning.restore()
        if drift:
            drift_away(self.uri)


class _Files:
    """A copy beside the graph."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._copy = neighbour(uri, "beginning")
        replace_graph(self._copy, uri)

    def restore(self) -> None:
        replace_graph(self._uri, self._copy)


class _Objects:
    """What was in the bucket, in memory: only what is another by now is written again."""

    def __init__(self, uri: str) -> None:
        self._store = open_control_store(parse_location(uri, REAL), REAL)
        self._tags = {each.path: each.e_tag for each in self._store.list()}
        with ThreadPoolExecutor(_THREADS) as pool:
            self._bytes = dict(zip(self._tags, pool.map(self._store.read, self._tags), strict=True))

    def restore(self) -> None:
        there = {each.path: each.e_tag for each in self._store.list()}
        changed = [each for each in self._tags if there.get(each) != self._tags[each]]
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(self._store.delete, there.keys() - self._tags.keys()))
            written = pool.map(lambda each: self._store.write(each, self._bytes[each]).e_tag, changed)
            self._tags.update(zip(changed, written, strict=True))


def drift_away(uri: str) -> None:
    """Compact a table with bare Lance."""
    graph = og.open(uri)
    tables = graph._manifest.stores.tables
    entry = graph.snapshot()[DRIFTED]
    dataset = lance.dataset(
        tables.uri(entry.path), storage_options=tables.open(entry.pin).handle.initial_storage_options
    )
    dataset.optimize.compact_files()
    assert dataset.latest_version > entry.version


class Serial:
    """What becomes of operations that are done one after the other, undisturbed; worked out once for every order."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._known: dict[tuple[object, ...], tuple[Seen, dict[str, Answer]]] = {}

    def after(self, order: Sequence[tuple[str, str]], branch: str) -> tuple[Seen, dict[str, Answer]]:
        """What is seen after these operations, each told as (who, what), and what each was answered."""
        key = (*order, branch)
        if key not in self._known:
            self._lane.reset(drift=(VICTIM, "repair") in order)
            answers = {}
            for who, name in order:
                answers[who] = _do(self._lane.uri, who, name, branch)
            self._known[key] = look(og.open(self._lane.uri)), answers
        return self._known[key]


def _do(uri: str, who: str, name: str, branch: str) -> Answer:
    try:
        act_of(who, name, branch)(og.open(uri, actor=who), who)
    except Exception as error:  # noqa: BLE001 - compared with what the same operation was answered in a case
        return answer_of(error)
    return Answer()
