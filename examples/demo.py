"""From nothing to a graph with a history: what OmniGraph does, step by step, with the numbers.

make demo            leaves the graph in .demo/social.omni to play with
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import omnigraph as og
from omnigraph.errors import MergeConflicts

HERE = Path(".demo")
GRAPH = HERE / "social.omni"
WRITERS, EACH = 4, 10

SCHEMA = """
node Person {
    name: String @key
    age: I32?
    city: String?
    @range(age, 0..150)
}
edge Knows: Person -> Person { since: Date? }
"""
MEET = """
query meet($a: String, $b: String) {
    insert Person { name: $a }
    insert Person { name: $b }
    insert Knows { from: $a, to: $b }
}
"""
SET_CITY = "query move($n: String, $c: String) { update Person set { city: $c } where name = $n }"
SET_AGE = "query grow($n: String, $y: I32) { update Person set { age: $y } where name = $n }"

_step = 0


def step(title: str) -> None:
    """Announce a step."""
    global _step
    _step += 1
    print(f"\n{_step}. {title}")


def tell(text: str) -> None:
    """Say what happened."""
    print(f"   {text}")


def write_some(who: str) -> None:
    """What each writer process does."""
    graph = og.open(GRAPH, actor=who)
    for number in range(EACH):
        graph.mutate(MEET, {"a": f"{who}-{number}", "b": "Ada"})


def start(*arguments: str, failpoints: str = "") -> subprocess.Popen[bytes]:
    """Another Python process that runs a part of this script."""
    environment = {**os.environ, "OMNIGRAPH_FAILPOINTS": failpoints}
    return subprocess.Popen([sys.executable, __file__, *arguments], env=environment)


def main() -> None:
    """All steps."""
    shutil.rmtree(HERE, ignore_errors=True)
    began = time.perf_counter()

    step("A new graph from a schema")
    graph = og.init(GRAPH, schema=SCHEMA, actor="demo")
    tell(f"{graph.uri}: {', '.join(graph.snapshot().tables)}")

    step("One mutation, three rows in two tables, one commit")
    done = graph.mutate(MEET, {"a": "Ada", "b": "Grace"})
    tell(f"commit {done.commit.id if done.commit else None}: {done.affected_nodes} nodes, {done.affected_edges} edge")

    step("A row that breaks a rule changes nothing")
    try:
        graph.mutate(SET_AGE, {"n": "Ada", "y": 200})
    except og.errors.ConstraintViolation as error:
        tell(str(error))

    step(f"{WRITERS} processes write to the same tables at once, {EACH} commits each")
    clock = time.perf_counter()
    writers = [start("write", f"writer{number}") for number in range(WRITERS)]
    codes = [each.wait() for each in writers]
    history = graph.commits()
    tell(f"exit codes {codes}; {len(history)} commits in one chain, in {time.perf_counter() - clock:.1f} s")

    step("kill -9 in the middle of a commit, after one of its two tables has moved")
    killed = start("write", "victim", failpoints="commit.table_landed=kill")
    tell(f"the process died with signal {-killed.wait()}; readers see {_people(graph)} people, as before")
    graph.mutate(SET_CITY, {"n": "Ada", "c": "London"})
    (recovery,) = graph.recoveries()
    tell(f"the next writer found its sidecar and undid it: {recovery.kind}, {len(recovery.outcomes)} table restored")

    step("A branch costs nothing until it is written to")
    graph.branches.create("review")
    graph.mutate(SET_CITY, {"n": "Ada", "c": "Turin"}, branch="review")
    graph.mutate(SET_AGE, {"n": "Grace", "y": 85}, branch="review")
    graph.mutate(SET_CITY, {"n": "Ada", "c": "Paris"})
    tell(f"main and review differ: {[vars(each) for each in graph.diff('main', 'review').summary()]}")

    step("A merge with a conflict, resolved")
    try:
        graph.merge("review")
    except MergeConflicts as refused:
        tell(str(refused).replace("\n", "\n   "))
    merged = graph.merge("review", resolve="theirs")
    tell(f"{merged.kind}: {merged.puts} rows written, commit {merged.commit.id if merged.commit else None}")

    step("Back in time")
    first = graph.commits()[-2]
    past = graph.snapshot(commit_id=first.id)
    tell(f"at commit {first.id} there were {past['node:Person'].row_count} people; now there are {_people(graph)}")

    print(f"\nAll of it took {time.perf_counter() - began:.1f} s. The graph stays in {GRAPH}:")
    print(f"   python -c \"import omnigraph as og; print(og.open('{GRAPH}').commits()[:3])\"")


def _people(graph: og.Graph) -> int:
    return graph.snapshot()["node:Person"].row_count


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        write_some(sys.argv[2])
    else:
        main()
