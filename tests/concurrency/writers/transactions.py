"""Transactions of several processes on a graph of plain tables; what each saw and wrote, told as it goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import omnigraph as og
from crash.zygote_process import report
from omnigraph.errors import ConstraintViolation, HeadMismatch, OmniGraphError, ReadSetChanged
from omnigraph.failpoints import InjectedFaultError, arm
from omnigraph.transaction.commit.protocol import Operation, commit
from omnigraph.transaction.write_set import TableWrite, WriteSet
from omnigraph.world import REAL
from storage.joined_changes import stage_upsert
from transaction.recovery.hand_made import CITY, PERSON, content, reopen, rows_of, values_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from omnigraph.transaction.read_view import ReadView

    Values = Mapping[str, Mapping[str, int]]

PATIENCE = 200


def transaction(compute: Callable[[Values], Values | None], *tables: str, repeatable: bool = True) -> Operation:
    """Read some tables whole, and set rows in some of them."""

    def prepare(view: ReadView) -> WriteSet | None:
        found: dict[str, dict[str, int]] = {}
        for table_key in tables:
            found[table_key] = values_of(view.read(table_key))
        changes = compute(found)
        if not changes:
            return None
        return WriteSet([TableWrite(view.entry(key), _setting(dict(values))) for key, values in changes.items()])

    return Operation("Mutation", prepare, repeatable=repeatable)


def setting(values: Values) -> Operation:
    """Set rows whatever is there."""
    return transaction(lambda _: values, *values)


def _setting(values: dict[str, int]) -> Callable[[Any], Any]:
    return lambda table: stage_upsert(table, rows_of(values))


def increment(uri: str, times: int) -> int:
    """Read a counter, then write it plus one if nothing was committed since; how many tries that took."""
    graph, tries = reopen(uri), 0
    for _ in range(times):
        for _ in range(PATIENCE):
            tries += 1
            snapshot = graph.snapshot()
            counter = values_of(graph.stores.tables.open(snapshot[PERSON].pin).read())["counter"]
            operation = setting({PERSON: {"counter": counter + 1}})
            try:
                commit(graph, Operation("Mutation", operation.prepare, expected_head=snapshot.commit_id))
            except HeadMismatch:
                continue
            break
    return tries


def increment_in_one_operation(uri: str, times: int) -> None:
    """The operation itself reads the counter: it may be computed again."""
    graph = reopen(uri)
    for _ in range(times):
        commit(graph, transaction(lambda found: {PERSON: {"counter": found[PERSON]["counter"] + 1}}, PERSON))


def set_everywhere(uri: str, first: int, times: int) -> None:
    """Set the same number in four rows of two tables."""
    graph = reopen(uri)
    for number in range(first, first + times):
        value = {"x": number, "y": number}
        commit(graph, setting({PERSON: value, CITY: value}))


def fail_everywhere(uri: str, times: int) -> None:
    """Set minus one in four rows of two tables, and fail at the publish every time."""
    graph = reopen(uri)
    for _ in range(times):
        arm("publish.before_write=raise")
        try:
            commit(graph, setting({PERSON: {"x": -1, "y": -1}, CITY: {"x": -1, "y": -1}}))
        except (InjectedFaultError, OmniGraphError):
            continue
        raise AssertionError("it did not fail")


def watch(uri: str, seconds: float) -> list[set[int]]:
    """The different numbers that each snapshot shows, one after the other."""
    graph, found = reopen(uri, read_only=True), []
    end = REAL.monotonic() + seconds
    while REAL.monotonic() < end:
        snapshot = graph.snapshot()
        tables = [values_of(graph.stores.tables.open(snapshot[key].pin).read()) for key in (PERSON, CITY)]
        found.append({value for values in tables for value in values.values()})
    return found


def write_one_read_other(uri: str, mine: str, other: str, times: int) -> list[int]:
    """Write the number of the round into one row, computed together with a look at the other's row in another table."""
    graph, looked = reopen(uri), []
    for number in range(1, times + 1):
        last: list[int] = []

        def compute(found: Values, n: int = number, last: list[int] = last) -> Values:
            last[:] = [found[other]["x"]]
            return {mine: {"x": n}}

        receipt = commit(graph, transaction(compute, mine, other))
        assert receipt is not None
        looked.append(last[0])
        report((mine, number, last[0], receipt.commit.id))
    return looked


def withdraw(uri: str, mine: str) -> str:
    """Take 100 from one of two accounts, in two tables, if both together have enough."""
    graph = reopen(uri)

    def compute(found: Values) -> Values | None:
        total = found[PERSON]["x"] + found[CITY]["x"]
        return {mine: {"x": found[mine]["x"] - 100}} if total >= 100 else None

    try:
        return "done" if commit(graph, transaction(compute, PERSON, CITY, repeatable=False)) else "refused"
    except ReadSetChanged:
        return "conflict"


def link(uri: str, names: list[str]) -> int:
    """Insert an edge to each of these people who is there; how many."""
    graph, made = og.open(uri), 0
    for name in names:
        try:
            graph.mutate('query q($n: String) { insert Knows { from: "ada", to: $n } }', {"n": name})
        except ConstraintViolation:
            continue
        made += 1
    return made


def remove(uri: str, names: list[str]) -> int:
    """Remove each of these people with all edges, trying again after a conflict; how many."""
    graph, gone = og.open(uri), 0
    for name in names:
        for _ in range(PATIENCE):
            try:
                gone += graph.mutate(
                    "query q($n: String) { delete Person where name = $n }", {"n": name}
                ).affected_nodes
            except ReadSetChanged:
                continue
            break
    return gone


def final(uri: str) -> Values:
    """What is there at the end."""
    return content(reopen(uri, read_only=True))
