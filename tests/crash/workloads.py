"""Operations on a small social graph that can follow each other in any order, and what a reader sees of it."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import omnigraph as og
from crash.zygote_process import report
from omnigraph.errors import OmniGraphError
from omnigraph.failpoints import InjectedFaultError
from omnigraph.graph import backends
from omnigraph.history.merge.partitioned.hash_partitions import MergeBudget
from omnigraph.manifest.layout import physical_branch
from omnigraph.storage.tables.compaction import CompactionPolicy
from omnigraph.transaction.intents.sidecar import PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SCHEMA = """
node Person { name: String @key  age: I32? }
node City { name: String @key }
edge Knows: Person -> Person { since: I32?  @key(src, dst) }
edge LivesIn: Person -> City { @key(src, dst) }
"""

Seen = dict[str, dict[str, frozenset[tuple[Any, ...]]]]


def build(uri: str) -> og.Graph:
    """People who know each other, and a branch `side` with changes of its own."""
    graph = og.init(uri, schema=SCHEMA)
    people = [{"type": "Person", "data": {"name": name, "age": 30}} for name in ("ada", "bo", "cy", "victim")]
    knows: list[dict[str, object]] = [{"edge": "Knows", "from": "ada", "to": to, "data": {}} for to in ("bo", "victim")]
    graph.load([*people, {"type": "City", "data": {"name": "Rome"}}, *knows], mode="append")
    graph.mutate('query q() { insert Person { name: "newest" } }')
    graph.branches.create("side")
    graph.branches.create("fresh")
    graph.mutate('query q() { insert Person { name: "sid" } insert Knows { from: "ada", to: "sid" } }', branch="side")
    return graph


def insert(graph: og.Graph, number: int) -> None:
    graph.mutate("query q($n: String) { insert Person { name: $n } }", {"n": f"new-{number}"})


def insert_in_three_tables(graph: og.Graph, number: int) -> None:
    graph.mutate(
        "query q($n: String) { insert Person { name: $n } insert Knows { from: $n, to: $n } "
        'insert LivesIn { from: $n, to: "Rome" } }',
        {"n": f"three-{number}"},
    )


def update(graph: og.Graph, number: int) -> None:
    graph.mutate('query q($a: I32) { update Person set { age: $a } where name = "ada" }', {"a": 40 + number})


def delete(graph: og.Graph, number: int) -> None:
    """The first time it takes an edge with it, and then there is nothing left to remove."""
    graph.mutate('query q() { delete Person where name = "victim" }')


def load_rows(number: int) -> list[dict[str, Any]]:
    """People and where they live."""
    rows = [{"type": "Person", "data": {"name": f"load-{number}-{each}", "age": each}} for each in range(20)]
    lives = [{"edge": "LivesIn", "from": f"load-{number}-{each}", "to": "Rome", "data": {}} for each in range(20)]
    return [*rows, *lives]


def load(graph: og.Graph, number: int) -> None:
    graph.load(load_rows(number), mode="merge")


def overwrite(graph: og.Graph, number: int) -> None:
    cities = [{"type": "City", "data": {"name": name}} for name in ("Rome", f"Town-{number}")]
    graph.load(cities, mode="overwrite")


def create_branch(graph: og.Graph, number: int) -> None:
    graph.branches.create(f"branch-{number}")


def first_write_to_a_branch(graph: og.Graph, number: int) -> None:
    graph.mutate("query q($n: String) { insert Person { name: $n } }", {"n": f"fresh-{number}"}, branch="fresh")


def merge(graph: og.Graph, number: int) -> None:
    graph.merge("side")


def merge_in_partitions(graph: og.Graph, number: int) -> None:
    """A merge that is too large for memory, as every merge is then; each part of it is a fragment."""
    held, backends.BUDGET = backends.BUDGET, MergeBudget(bytes=0)
    try:
        graph.merge("side", engine="local")
    finally:
        backends.BUDGET = held


def merge_from_main(graph: og.Graph, number: int) -> None:
    graph.merge("main", into="side")


def catch_up(graph: og.Graph, number: int) -> None:
    """A branch that has written little takes main's tables, most of them as they are."""
    graph.merge("main", into="fresh")


def revert(graph: og.Graph, number: int) -> None:
    """The load that everything began with is in the way of itself; the newest commit never is."""
    newest = next(each for each in graph.commits() if each.parent is not None)
    graph.revert(newest.id, resolve="theirs", dry_run=newest.schema is not None)


def tag(graph: og.Graph, number: int) -> None:
    graph.tags.create(f"tag-{number}")


def ensure_indices(graph: og.Graph, number: int) -> None:
    graph.ensure_indices()


OPERATIONS: dict[str, Callable[[og.Graph, int], None]] = {
    each.__name__: each
    for each in (
        insert, insert_in_three_tables, update, delete, load, overwrite, create_branch, first_write_to_a_branch, merge,
        merge_from_main, catch_up, revert, tag, ensure_indices,
    )
}  # fmt: skip


def insert_and_fold(graph: og.Graph, number: int) -> None:
    """A write that joins the small fragments of its table within its commit."""
    graph._manifest.minor_compaction = CompactionPolicy(fragments=2)
    graph.mutate("query q($n: String) { insert Person { name: $n } }", {"n": f"fold-{number}"})


def optimize(graph: og.Graph, number: int) -> None:
    graph.optimize()


def optimize_a_branch(graph: og.Graph, number: int) -> None:
    graph.optimize(branch="side")


def cleanup(graph: og.Graph, number: int) -> None:
    graph.cleanup(keep=1, grace=dt.timedelta(0))


def repair(graph: og.Graph, number: int) -> None:
    graph.repair(confirm=True)


def change_schema(graph: og.Graph, number: int) -> None:
    """One more property, which the branches that have written to its table do without until they are merged."""
    graph.apply_schema(graph.schema.replace("age: I32?", f"age: I32?  later_{number}: I32?"))


# They change nothing that a reader sees; the sweep pairs them with some of the others.
UPKEEP: dict[str, Callable[[og.Graph, int], None]] = {
    each.__name__: each for each in (insert_and_fold, optimize, optimize_a_branch, cleanup, repair)
}
# The same for a reader as `merge`, by another way.
LARGE: dict[str, Callable[[og.Graph, int], None]] = {"merge_in_partitions": merge_in_partitions}
# More than this is tried in a folder of its own, `test_schema_changes.py`.
SCHEMA_CHANGES: dict[str, Callable[[og.Graph, int], None]] = {"change_schema": change_schema}
EVERY = {**OPERATIONS, **UPKEEP, **LARGE, **SCHEMA_CHANGES}


def run(uri: str, workload: Sequence[str]) -> None:
    """Carry out a workload in this process, telling of every operation that returned, and of one that failed."""
    graph = og.open(uri)
    for number, name in enumerate(workload):
        try:
            EVERY[name](graph, number)
        except (OmniGraphError, InjectedFaultError) as error:
            report(f"{name} failed: {type(error).__name__}")
            return
        report(name)


def force_repair(uri: str) -> None:
    """Take whatever other programs have done to the tables."""
    og.open(uri).repair(confirm=True, force=True)


def keep_inserting(uri: str, times: int) -> int:
    """What another living process does meanwhile: rows of its own, in two tables."""
    graph = og.open(uri)
    for number in range(times):
        graph.mutate(
            "query q($n: String) { insert Person { name: $n } insert Knows { from: $n, to: $n } }",
            {"n": f"other-{number}"},
        )
        report(number)
    return times


def seen(graph: og.Graph) -> Seen:
    """All rows of all tables of all branches, and whether counts are right."""
    found: Seen = {}
    for branch in graph.branches.list():
        tables = {}
        for entry in graph.snapshot(branch=branch.name):
            rows = graph._manifest.stores.tables.open(entry.pin).read()
            values = frozenset(tuple(row.items()) for row in rows.to_pylist())
            assert len(values) == rows.num_rows == entry.row_count, f"{entry.table_key} repeats or miscounts rows"
            tables[entry.table_key] = values
        found[branch.name] = tables
    return found


def unsettled(graph: og.Graph) -> list[str]:
    """What is not as it should be: sidecars, forked histories, tables that are not where the graph says."""
    manifest = graph._manifest
    wrong = list(manifest.stores.objects.list_names(PREFIX))
    for branch in graph.branches.list():
        lineage = manifest.lineage(branch.name)
        if len(list(lineage.first_parents())) + _merged_in(lineage) < len(lineage.commits):
            wrong.append(f"the history of {branch.name} is not one line")
        for entry in graph.snapshot(branch=branch.name):
            if entry.branch != physical_branch(branch.name):
                continue
            head = manifest.stores.tables.open_newest(entry.path, entry.branch).version
            if head != entry.version:
                wrong.append(f"{entry.table_key} on {branch.name}: published {entry.version}, on the store {head}")
    return wrong


def _merged_in(lineage: Any) -> int:
    """Commits that are there only because a merge brought them."""
    firsts = {each.id for each in lineage.first_parents()}
    return (
        sum(each not in firsts for each in lineage.commits)
        if any(each.merged_parent for each in lineage.commits.values())
        else 0
    )
