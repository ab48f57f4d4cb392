"""From nothing to a graph with a history: what OmniGraph does, step by step, with the numbers.

make demo            leaves the graph in .demo/library.omni to play with
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import omnigraph as og
from omnigraph.errors import MergeConflicts

HERE = Path(".demo")
GRAPH, DATA = HERE / "library.omni", HERE / "papers.jsonl"
PEOPLE, PAPERS, DIMENSIONS = 2_000, 20_000, 32
WRITERS, EACH = 4, 10

SCHEMA = f"""
node Person {{
    name: String @key
    age: I32?
    city: String?
    @range(age, 0..150)
}}
node Paper {{
    title: String @key
    abstract: String @index
    about: Vector({DIMENSIONS})
}}
edge Wrote: Person -> Paper
edge Cites: Paper -> Paper
edge Knows: Person -> Person {{ since: Date? }}
"""
SUBJECTS = ("graphs", "storage", "queries", "vectors", "branches", "merging", "recovery", "compression", "caching")
MANNERS = ("a survey of", "fast", "the cost of", "teaching", "against", "measuring", "forgotten", "distributed")

MEET = """
query meet($a: String, $b: String) {
    insert Person { name: $a }
    insert Person { name: $b }
    insert Knows { from: $a, to: $b }
}
"""
SET_CITY = "query move($n: String, $c: String) { update Person set { city: $c } where name = $n }"
SET_AGE = "query grow($n: String, $y: I32) { update Person set { age: $y } where name = $n }"
RELATED = f"""
query related($words: String, $like: Vector({DIMENSIONS})) {{
    match {{ $p: Paper  $who wrote $p  $p cites $earlier }}
    return {{
        $p.title, $who.name as author, $earlier.title as cites,
        rrf(nearest($p.about, $like), bm25($p.abstract, $words)) as score
    }}
    order {{ score, author, cites }}
    limit 3
}}
"""

_step = 0


def step(title: str) -> None:
    """Announce a step."""
    global _step
    _step += 1
    print(f"\n{_step}. {title}")


def tell(text: str) -> None:
    """Say what happened."""
    print("   " + text.replace("\n", "\n   "))


def make_data() -> int:
    """A library of papers that cite each other, as graph records; the number of records."""
    dice = random.Random(7)
    meaning = {each: [dice.gauss(0, 1) for _ in range(DIMENSIONS)] for each in SUBJECTS}
    records: list[dict[str, object]] = [
        {"type": "Person", "data": {"name": f"author {number}", "age": dice.randrange(20, 90)}}
        for number in range(PEOPLE)
    ]
    for number in range(PAPERS):
        first, second = dice.sample(SUBJECTS, 2)
        title = f"{dice.choice(MANNERS)} {first} and {second}, part {number}"
        about = [x + y + dice.gauss(0, 0.3) for x, y in zip(meaning[first], meaning[second], strict=True)]
        text = (
            f"This paper is about {first}. It also looks at {second} and at what {dice.choice(SUBJECTS)} do for them."
        )
        records.append({"type": "Paper", "data": {"title": title, "abstract": text, "about": about}})
        records.append({"edge": "Wrote", "from": f"author {dice.randrange(PEOPLE)}", "to": title})
    titles = [each["data"]["title"] for each in records if each.get("type") == "Paper"]  # type: ignore[index]
    for at in range(1, PAPERS):
        cited = dice.sample(range(at), min(at, 3))
        records += [{"edge": "Cites", "from": titles[at], "to": titles[each]} for each in cited]
    DATA.write_text("\n".join(map(json.dumps, records)), "utf-8")
    return len(records)


def write_some(who: str) -> None:
    """What each writer process does."""
    graph = og.open(GRAPH, actor=who)
    for number in range(EACH):
        graph.mutate(MEET, {"a": f"{who}-{number}", "b": "Ada"})


def load_some() -> None:
    """What the process that is going to be killed does: new people, and edges between them, in one commit."""
    people = [{"name": f"lost {number}"} for number in range(1000)]
    knows = [{"from": f"lost {number}", "to": "Ada"} for number in range(1000)]
    og.open(GRAPH, actor="victim").load({"Person": people, "Knows": knows})


def start(*arguments: str, failpoints: str = "") -> subprocess.Popen[bytes]:
    """Another Python process that runs a part of this script."""
    environment = {**os.environ, "OMNIGRAPH_FAILPOINTS": failpoints}
    return subprocess.Popen([sys.executable, __file__, *arguments], env=environment)


def main() -> None:
    """All steps."""
    shutil.rmtree(HERE, ignore_errors=True)
    HERE.mkdir()
    began = time.perf_counter()

    step("A new graph from a schema, and a data set")
    graph = og.init(GRAPH, schema=SCHEMA, actor="demo")
    records = make_data()
    tell(f"{graph.uri}: {', '.join(graph.snapshot().tables)}")
    tell(f"{DATA}: {records:,} records, {DATA.stat().st_size / 1e6:.1f} MB")

    step("Loaded through Spark, validated, as one commit")
    summary = graph.load(DATA, engine="spark").summary
    stages = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in summary.stages.items())
    tell(f"{summary.rows:,} rows in {summary.seconds:.1f} s: {stages}")

    step("One question over traversal, text and vectors")
    graph.ensure_indices()
    like = graph.query("query one() { match { $p: Paper } return { $p.about } limit 1 }").to_pylist()[0]["p.about"]
    clock = time.perf_counter()
    answer = graph.query(RELATED, {"words": "recovery branches", "like": like})
    tell(str(answer))
    tell(f"in {time.perf_counter() - clock:.2f} s, over {PAPERS:,} papers and {3 * PAPERS:,} citations")

    step("A row that breaks a rule changes nothing")
    graph.mutate(MEET, {"a": "Ada", "b": "Grace"})
    try:
        graph.mutate(SET_AGE, {"n": "Ada", "y": 200})
    except og.errors.ConstraintViolation as error:
        tell(str(error))

    step(f"{WRITERS} processes write to the same tables at once, {EACH} commits each")
    clock = time.perf_counter()
    codes = [each.wait() for each in [start("write", f"writer{number}") for number in range(WRITERS)]]
    tell(f"exit codes {codes}; {len(graph.commits())} commits in one chain, in {time.perf_counter() - clock:.1f} s")

    step("kill -9 in the middle of a load, after one of its two tables has moved")
    killed = start("load", failpoints="commit.table_landed=kill")
    tell(f"the process died with signal {-killed.wait()}; readers see {_people(graph):,} people, as before")
    graph.mutate(SET_CITY, {"n": "Ada", "c": "London"})
    (recovery,) = graph.recoveries()
    tell(f"the next writer found its sidecar and undid it: {recovery.kind}, {len(recovery.outcomes)} table restored")

    step("A branch costs nothing until it is written to")
    graph.tags.create("before-review")
    graph.branches.create("review")
    graph.mutate(SET_CITY, {"n": "Ada", "c": "Turin"}, branch="review")
    graph.mutate(SET_AGE, {"n": "Grace", "y": 85}, branch="review")
    graph.mutate(SET_CITY, {"n": "Ada", "c": "Paris"})
    tell(f"main and review differ: {[vars(each) for each in graph.diff('main', 'review').summary()]}")

    step("A merge with a conflict, resolved")
    try:
        graph.merge("review")
    except MergeConflicts as refused:
        tell(str(refused))
    merged = graph.merge("review", resolve="theirs")
    tell(f"{merged.kind}: {merged.puts} rows written, commit {merged.commit.id if merged.commit else None}")

    step("Back in time")
    city = 'query city() { match { $p: Person { name: "Ada" } } return { $p.city } }'
    then = graph.query(city, at=graph.tags.get("before-review").commit_id).to_pylist()
    now = graph.query(city).to_pylist()
    tell(f"at the tag before-review Ada lived in {then[0]['p.city']}; now in {now[0]['p.city']}")

    print(f"\nAll of it took {time.perf_counter() - began:.1f} s. The graph stays in {GRAPH}; ask it something:")
    print(f"   .venv/bin/omnigraph commit list {GRAPH} --graph")
    question = "query q() { match { $p: Person } return { count($p) as people } }"
    print(f"   .venv/bin/omnigraph query --store {GRAPH} -e '{question}'")


def _people(graph: og.Graph) -> int:
    return graph.snapshot()["node:Person"].row_count


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        write_some(sys.argv[2])
    elif sys.argv[1:2] == ["load"]:
        load_some()
    else:
        main()
