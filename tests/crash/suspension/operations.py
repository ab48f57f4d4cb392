"""The operations of the suspension matrix, what their rivals do, and the graph that they all work on.

Each takes an open graph and the label of whoever calls it, which is also the actor of its commits: what is left of an
operation can be told from the history, and from the rows that carry the label.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crash import workloads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import omnigraph as og

VICTIM, RIVAL, SECOND = "victim", "rival", "second"
# How the types begin that changes of the schema add.
ADDED = "By"
OLD_TAG, SPARE, SPARE_TAG = "first", "spare", "spare-tag"
# Positions in the history of main as `build` leaves it, from the oldest.
TAGGED, OLD, REVERTED = 1, 3, 4

Act = "Callable[[og.Graph, str], None]"


def build(uri: str) -> None:
    """The social graph of the workloads with a longer past: tags, and a branch that began at an old commit."""
    graph = workloads.build(uri)
    for number in range(3):
        add_everywhere(graph, f"past-{number}", "main")
    graph.tags.create(OLD_TAG, commit_at(graph, TAGGED))
    graph.tags.create("sided", branch="side")
    graph.tags.create(SPARE_TAG)
    graph.branches.create(SPARE, from_=commit_at(graph, TAGGED + 1))
    _insert(SPARE)(graph, "spared")


def commit_at(graph: og.Graph, position: int) -> str:
    """The id of a commit of main, counted from the oldest."""
    return [each.id for each in reversed(graph.commits())][position]


def add_everywhere(graph: og.Graph, name: str, branch: str, more: Iterable[str] = ()) -> None:
    """One row in every table of a branch; `more` are types that changes of the schema have added."""
    others = " ".join(f"insert {each} {{ name: $n }}" for each in more)
    graph.mutate(
        "query q($n: String) { insert Person { name: $n } insert Knows { from: $n, to: $n } "
        f"insert City {{ name: $n }} insert LivesIn {{ from: $n, to: $n }} {others} }}",
        {"n": name},
        branch=branch,
    )


def added_types(graph: og.Graph, branch: str) -> list[str]:
    """The types of a branch that a change of the schema has added."""
    tables = graph.snapshot(branch=branch).tables
    return [key.partition(":")[2] for key in tables if key.startswith(f"node:{ADDED}")]


def _insert(branch: str) -> Callable[[og.Graph, str], None]:
    return lambda graph, label: add_everywhere(graph, label, branch)


def _update(branch: str) -> Callable[[og.Graph, str], None]:
    def update(graph: og.Graph, label: str) -> None:
        age = {"a": 50 + len(label)}
        graph.mutate('query q($a: I32) { update Person set { age: $a } where name = "bo" }', age, branch=branch)

    return update


def _delete(branch: str) -> Callable[[og.Graph, str], None]:
    def delete(graph: og.Graph, _: str) -> None:
        graph.mutate('query q() { delete Person where name = "cy" }', branch=branch)

    return delete


def _merge_into(branch: str) -> Callable[[og.Graph, str], None]:
    def merge(graph: og.Graph, _: str) -> None:
        if branch == "main":
            graph.merge("side")
        else:
            graph.merge("main", into=branch)

    return merge


def create_branch(graph: og.Graph, label: str) -> None:
    graph.branches.create(f"made-by-{label}")


def branch_at_old_commit(graph: og.Graph, label: str) -> None:
    graph.branches.create(f"old-by-{label}", from_=commit_at(graph, OLD))


def tag_at_old_commit(graph: og.Graph, label: str) -> None:
    graph.tags.create(f"old-tag-by-{label}", commit_at(graph, OLD))


def delete_branch(graph: og.Graph, _: str) -> None:
    graph.branches.delete(SPARE, force=True)


def delete_tag(graph: og.Graph, _: str) -> None:
    graph.tags.delete(SPARE_TAG)


def tag(graph: og.Graph, label: str) -> None:
    graph.tags.create(f"tag-by-{label}")


def overwrite(graph: og.Graph, _: str) -> None:
    """Edges, since nothing stands on them: what a rival has added before is gone, and no rule broken."""
    knows: dict[str, object] = {"edge": "Knows", "from": "ada", "to": "bo", "data": {"since": 7}}
    graph.load([knows], mode="overwrite")


def revert(graph: og.Graph, _: str) -> None:
    graph.revert(commit_at(graph, REVERTED), resolve="theirs")


def change_schema(graph: og.Graph, label: str) -> None:
    """A property and a type more. Of two that do this, the later one takes out again what the earlier has added."""
    text = workloads.SCHEMA.replace("age: I32?", f"age: I32?  by_{label}: I32?")
    graph.apply_schema(f"{text}\nnode {ADDED}{label.capitalize()} {{ name: String @key }}\n")


def recreate(branch: str) -> Callable[[og.Graph, str], None]:
    def recreate(graph: og.Graph, _: str) -> None:
        """What a call that was made again has done already is not done twice."""
        if branch in graph.branches:
            graph.branches.delete(branch, force=True)
        graph.branches.create(branch)

    return recreate


def _optimize(branch: str) -> Callable[[og.Graph, str], None]:
    def optimize(graph: og.Graph, _: str) -> None:
        require_none(each.error or each.skipped for each in graph.optimize(branch=branch).tables)

    return optimize


def cleanup(graph: og.Graph, _: str) -> None:
    require_none(each.error for each in graph.cleanup(keep=1, grace=dt.timedelta(0)).tables)


class ToldInReportError(Exception):
    """A report of upkeep has told of what should have been an error, or none."""


def require_none(told: Iterable[str | None]) -> None:
    """That a table is inherited or was written to meanwhile is part of upkeep; anything else is for an operator."""
    wrong = [each for each in told if each not in (None, "inherited", "written_to_meanwhile")]
    if wrong:
        raise ToldInReportError("; ".join(map(str, wrong)))


def _as_workload(name: str) -> Callable[[og.Graph, str], None]:
    return lambda graph, _: workloads.EVERY[name](graph, 0)


@dataclass(frozen=True)
class Operation:
    """Something that is stopped half-way. `branch`: where its rivals write; `tidy`: it makes any number of commits."""

    act: Callable[[og.Graph, str], None]
    branch: str = "main"
    tidy: bool = False


OPERATIONS: dict[str, Operation] = {
    **{name: Operation(_as_workload(name)) for name in (
        "insert", "insert_in_three_tables", "update", "delete", "load", "merge", "merge_in_partitions",
        "insert_and_fold",
    )},
    "overwrite": Operation(overwrite),
    "revert": Operation(revert),
    "change_schema": Operation(change_schema),
    "create_branch": Operation(create_branch),
    "branch_at_old_commit": Operation(branch_at_old_commit),
    "delete_branch": Operation(delete_branch),
    "merge_from_main": Operation(_as_workload("merge_from_main"), "side"),
    # It takes most tables as main has them, and moves none of those.
    "catch_up": Operation(_as_workload("catch_up"), "fresh"),
    "first_write_to_a_branch": Operation(_as_workload("first_write_to_a_branch"), "fresh"),
    "tag": Operation(tag),
    "tag_at_old_commit": Operation(tag_at_old_commit),
    "delete_tag": Operation(delete_tag),
    "optimize": Operation(_optimize("main"), tidy=True),
    "optimize_a_branch": Operation(_optimize("side"), "side", tidy=True),
    "ensure_indices": Operation(_as_workload("ensure_indices"), tidy=True),
    "cleanup": Operation(cleanup, tidy=True),
    "repair": Operation(_as_workload("repair"), tidy=True),
}  # fmt: skip

# What the matrix cannot start in a process of its own in milliseconds; the same rows as a load without Spark makes.
SPARK_LOAD = "spark_load"
EVERY = {**OPERATIONS, SPARK_LOAD: OPERATIONS["load"]}

NOBODY = "none"
_ON_A_BRANCH: dict[str, Callable[[str], Callable[[og.Graph, str], None]]] = {
    "insert": _insert,
    "update": _update,
    "delete": _delete,
    "optimize": _optimize,
    "ensure_indices": lambda branch: lambda graph, _: graph.ensure_indices(branch=branch) and None,
    "merge": _merge_into,
    "recreate": recreate,
}
_ANYWHERE: dict[str, Callable[[og.Graph, str], None]] = {
    "change_schema": change_schema,
    "branch_at_old_commit": branch_at_old_commit,
    "tag_at_old_commit": tag_at_old_commit,
    "cleanup": cleanup,
}
RIVALS = (NOBODY, *_ON_A_BRANCH, *_ANYWHERE)
TIDY_RIVALS = frozenset({"optimize", "ensure_indices", "cleanup"})


def rivals_of(operation: str) -> tuple[str, ...]:
    """Main cannot be made anew; what another program did to a table is in the way of rivals until it is repaired."""
    found = RIVALS if EVERY[operation].branch == "fresh" else tuple(each for each in RIVALS if each != "recreate")
    return (
        tuple(each for each in found if each not in ("insert", "merge", "ensure_indices", "optimize"))
        if operation == "repair"
        else found
    )


def act_of(who: str, name: str, branch: str) -> Callable[[og.Graph, str], None]:
    """What the victim or the rival does."""
    if who == VICTIM:
        return EVERY[name].act
    return _ON_A_BRANCH[name](branch) if name in _ON_A_BRANCH else _ANYWHERE[name]
