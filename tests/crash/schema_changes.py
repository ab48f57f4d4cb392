"""Changes of schema for the crash tests, and what a reader sees before and after them."""

from __future__ import annotations

from typing import Any

import omnigraph as og
from crash.zygote_process import report
from omnigraph.errors import OmniGraphError
from omnigraph.failpoints import InjectedFaultError

BEFORE = """
node Person { name: String @key  age: I32?  nick: String? }
node City { name: String @key }
node Gone { name: String @key }
edge LivesIn: Person -> City
"""
# One table is moved, one rewritten, one made, one dropped, and one keeps its rows under other rules.
AFTER = """
node Human @rename_from("Person") { name: String @key  years: I64? @rename_from("age")  score: F64 @default(1.5) }
node City { name: String @key  size: I32? }
node Tag { label: String @key }
edge LivesIn: Human -> City @card(0..1)
"""
# What leaves every table of a branch as it is.
BESIDE_BRANCHES = BEFORE.replace("nick: String?", "nick: String? @index") + "node Tag { label: String @key }\n"

Seen = dict[str, dict[str, list[Any]]]


def build(uri: str, branch: str | None = None) -> None:
    graph = og.init(uri, schema=BEFORE)
    people = [{"type": "Person", "data": {"name": name, "age": 30}} for name in ("ada", "bo")]
    others = [{"type": kind, "data": {"name": "Rome"}} for kind in ("City", "Gone")]
    graph.load([*people, *others, {"edge": "LivesIn", "from": "ada", "to": "Rome", "data": {"id": "e"}}])
    if branch is not None:
        graph.branches.create(branch)
        graph.mutate('query q() { insert Person { name: "sid" } }', branch=branch)


def change(uri: str, schema: str, allow_data_loss: bool = False) -> None:
    """Apply a schema in this process, and tell whether it was done."""
    try:
        og.open(uri).apply_schema(schema, allow_data_loss=allow_data_loss)
    except (OmniGraphError, InjectedFaultError) as error:
        report(f"failed: {type(error).__name__}")
        return
    report("done")


def build_behind(uri: str) -> None:
    """`past` began before main's schema changed. Of its tables one is moved, one rewritten, one made, one dropped."""
    build(uri)
    graph = og.open(uri)
    before = graph.commits()[0].id
    graph.apply_schema(AFTER)
    graph.mutate('query q() { insert Human { name: "eve", score: 2.0 } insert City { name: "Oslo", size: 1 } }')
    graph.branches.create("past", from_=before)
    graph.mutate('query q() { insert Person { name: "dan", age: 50 } insert City { name: "Bonn" } }', branch="past")
    graph.mutate('query q() { insert LivesIn { from: "dan", to: "Bonn" } }', branch="past")


def take(uri: str) -> None:
    """Bring main's schema to `past` with a merge, in this process, and tell whether it was done."""
    try:
        og.open(uri).merge("main", into="past")
    except (OmniGraphError, InjectedFaultError) as error:
        report(f"failed: {type(error).__name__}")
        return
    report("done")


def keep_inserting(uri: str, times: int) -> list[str]:
    """A writer that knows the old names only until it is told of the new ones."""
    graph = og.open(uri)
    told = []
    for number in range(times):
        kind = "Human" if "node Human" in graph.schema else "Person"
        text = f'query q() {{ insert {kind} {{ name: "new-{number}"{", score: 2.0" if kind == "Human" else ""} }} }}'
        try:
            graph.mutate(text)
        except OmniGraphError:
            graph.refresh()
            continue
        told.append(f"new-{number}")
        report(number)
    return told


def keep_inserting_behind(uri: str, times: int) -> list[str]:
    """A writer to `past`, which knows the old names until the branch has the new ones."""
    graph = og.open(uri)
    told = []
    for number in range(times):
        graph.refresh()
        kind = "Human" if "node:Human" in graph.snapshot(branch="past").tables else "Person"
        try:
            graph.mutate(f'query q() {{ insert {kind} {{ name: "new-{number}" }} }}', branch="past")
        except OmniGraphError:
            continue
        told.append(f"new-{number}")
        report(number)
    return told


def seen(graph: og.Graph) -> Seen:
    """The columns and rows of every table of every branch, read as the snapshot says."""
    found: Seen = {}
    for branch in graph.branches.list():
        snapshot = graph.snapshot(branch=branch.name)
        found[branch.name] = {
            entry.table_key: sorted(
                map(repr, graph._manifest.stores.tables.open(entry.pin).read().to_pylist()),
            )
            for entry in snapshot
        }
    return found
