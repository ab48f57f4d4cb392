"""What a question costs right after a write: this engine, and DuckDB doing the same in the same run.

    python benchmarks/after_a_write.py [--persons 100000] [--rounds 9]

The network of `social.py`. Each round makes one change (a follow, a person, an age, a follow taken back) and asks a
question at once; both engines make the same changes, and every answer is compared with DuckDB's. `cold` is the first
asking after the graph was opened, `warm` is asking again without a change. The change itself is not in the times: it is
durable and seen by other processes here, and in memory of this process and its log there. Medians in milliseconds.
"""

from __future__ import annotations

import argparse
import datetime as dt
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
from social import QUESTIONS, SCHEMA, generate

import omnigraph as og

if TYPE_CHECKING:
    from collections.abc import Callable

    from social import Question, Tables

ASKED = ("top 3 most followed", "5 youngest cities of a country", "two-hop paths through the young to the older")


class Pair:
    """Both engines with the same network, changed in step."""

    def __init__(self, tables: Tables, folder: Path) -> None:
        self.folder = folder
        self.persons = tables["Person"].num_rows
        graph = og.init(folder / "graph.omni", schema=SCHEMA)
        graph.load(tables, mode="append")
        graph.ensure_indices()
        self.reopen()
        self.peer = duckdb.connect(str(folder / "peer.duckdb"))
        for name, rows in tables.items():
            self.peer.register("given", rows)
            self.peer.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
            self.peer.unregister("given")

    def reopen(self) -> None:
        """Forget everything."""
        self.graph = og.open(self.folder / "graph.omni")

    def follow(self, number: int) -> None:
        """One edge more."""
        one = number % self.persons
        followed = {each for (each,) in self.peer.execute("SELECT dst FROM Follows WHERE src = ?", [one]).fetchall()}
        other = next(each for each in range(self.persons) if each not in followed)
        self.graph.mutate(
            "query q($a: String, $b: String) { insert Follows { from: $a, to: $b } }", {"a": str(one), "b": str(other)}
        )
        self.peer.execute("INSERT INTO Follows VALUES (?, ?)", [one, other])

    def arrive(self, number: int) -> None:
        """One node more."""
        key = self.persons + number
        self.graph.mutate(
            "query q($k: I64, $b: Date) "
            '{ insert Person { key: $k, name: "New", gender: "female", age: 33, born: $b } }',
            {"k": key, "b": dt.date(1992, 1, 1)},
        )
        self.peer.execute("INSERT INTO Person VALUES (?, 'New', 'female', 33, DATE '1992-01-01')", [key])

    def age(self, number: int) -> None:
        """Another value for one node."""
        key = (13 * number + 5) % self.persons
        self.graph.mutate("query q($k: I64) { update Person set { age: 41 } where key = $k }", {"k": key})
        self.peer.execute("UPDATE Person SET age = 41 WHERE key = ?", [key])

    def unfollow(self, number: int) -> None:
        """Take back what one has followed."""
        one = (17 * number + 3) % self.persons
        self.graph.mutate("query q($a: String) { delete Follows where from = $a }", {"a": str(one)})
        self.peer.execute("DELETE FROM Follows WHERE src = ?", [one])

    def ask(self, question: Question) -> float:
        """Our time; the answer must be the peer's."""
        kinds = {str: "String", int: "I64"}
        declared = ", ".join(f"${name}: {kinds[type(value)]}" for name, value in question.params.items())
        rows, took = timed(
            lambda: self.graph.query(f"query q({declared}) {{ {question.gq} }}", question.params).to_arrow().to_pylist()
        )
        answer = [tuple(each.values()) for each in rows]
        wanted, _ = self._ask_peer(question)
        if not _alike(answer, wanted):
            sys.exit(f"{question.title}: {answer} instead of {wanted}")
        return took

    def ask_peer(self, question: Question) -> float:
        """The peer's time."""
        return self._ask_peer(question)[1]

    def _ask_peer(self, question: Question) -> tuple[list[tuple[Any, ...]], float]:
        return timed(lambda: self.peer.execute(question.sql, question.params or None).fetchall())


def timed(do: Callable[[], Any]) -> tuple[Any, float]:
    """What it gave, and how many milliseconds it took."""
    start = time.perf_counter()
    return do(), (time.perf_counter() - start) * 1_000


def _alike(one: list[tuple[Any, ...]], other: list[tuple[Any, ...]]) -> bool:
    return [tuple(map(_rounded, row)) for row in one] == [tuple(map(_rounded, row)) for row in other]


def _rounded(value: object) -> object:
    return round(value, 6) if isinstance(value, float) else value


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--persons", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pair = Pair(generate(options.persons), Path(folder))
        changes = {"follow": pair.follow, "person": pair.arrive, "age": pair.age, "follows taken back": pair.unfollow}
        print(
            "| question | cold | warm | " + " | ".join(f"after: {each}" for each in changes) + " | duckdb after them |"
        )
        print("|---" * (len(changes) + 4) + "|")
        number = 0
        for question in (each for each in QUESTIONS if each.title in ASKED):
            pair.reopen()
            cold = pair.ask(question)
            warm = statistics.median(pair.ask(question) for _ in range(options.rounds))
            shown, peer = [], []
            for change in changes.values():
                ours = []
                for _ in range(options.rounds):
                    number += 1
                    change(number)
                    ours.append(pair.ask(question))
                    peer.append(pair.ask_peer(question))
                shown.append(statistics.median(ours))
            cells = " | ".join(f"{each:.1f}" for each in (cold, warm, *shown, statistics.median(peer)))
            print(f"| {question.title} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
