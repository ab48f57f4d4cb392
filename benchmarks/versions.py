"""What branches, merges and diffs cost in tables of different sizes, beside doltlite doing the same in the same run.

    python benchmarks/versions.py                tables of 10^4, 10^5 and 10^6 rows
    python benchmarks/versions.py --large        of 10^7 as well
    python benchmarks/versions.py --rounds 9     more rounds than 5
    python benchmarks/versions.py --alone        without doltlite, which takes long to fill the largest tables
    python benchmarks/versions.py --cpu          processor time, which other work on the machine changes little

Each round makes a branch, writes one row on it (its first write), then changes 10 or 10,000 rows spread over the table,
and one row on main, so that the merge is a real one; then it diffs the branch against main as it was, and merges it.
The sizes take turns within a round; tables are filled once and copied for each number of changes. Times are lower
quartiles in milliseconds; `ratio` is the largest table's by the smallest's; `noise` says how much higher the medians
are, at worst. Indexes are built once, after the load; the rows of a diff are read. What bare Lance takes to read as
many rows, spread in the same way over a table of the same content from which none was ever removed, is a floor: a diff
has to compare the changed rows with what they were.
"""

from __future__ import annotations

try:
    import doltlite  # before sqlite3, whose place it takes
except ImportError:
    doltlite = None

import argparse
import random
import shutil
import sqlite3
import statistics
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa

import omnigraph as og
from omnigraph.storage.lance.data_files import FILE_FORMAT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCHEMA = "node Person { name: String @key  age: I32?  city: String? }"
STEPS = ("branch create", "first write on it", "diff", "merge")
READ = "read as many rows"


class Times:
    """How long each step took, by its name, the number of changed rows and the size of the table."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.taken: dict[tuple[str, int, int], list[float]] = {}

    @contextmanager
    def of(self, step: str, changed: int, rows: int) -> Iterator[None]:
        """Time a step."""
        start = self.clock()
        yield
        self.taken.setdefault((step, changed, rows), []).append((self.clock() - start) * 1_000)

    def lower(self, step: str, changed: int, rows: int) -> float:
        """The lower quartile."""
        return statistics.quantiles(self.taken[step, changed, rows], n=4)[0]

    def noise(self, step: str, changed: int, rows: int) -> float:
        """How much higher the median is."""
        return statistics.median(self.taken[step, changed, rows]) / self.lower(step, changed, rows) - 1


class OmniGraph:
    """The graph of this package."""

    name = "omnigraph"
    steps = STEPS

    @staticmethod
    def make(folder: Path, rows: int) -> None:
        """Fill it."""
        graph = og.init(folder / f"graph-{rows}", schema=SCHEMA)
        for start in range(0, rows, 1_000_000):
            graph.load({"Person": _people(range(start, min(rows, start + 1_000_000)))}, mode="append")
        graph.ensure_indices()

    def __init__(self, folder: Path, rows: int) -> None:
        self.rows = rows
        self.graph = og.open(folder / f"graph-{rows}")

    def round(self, number: int, changed: list[int], times: Times) -> None:
        """One branch from its beginning to its end."""
        graph, branch, size = self.graph, f"b{number}", (len(changed), self.rows)
        with times.of("branch create", *size):
            graph.branches.create(branch)
        with times.of("first write on it", *size):
            graph.mutate(
                "query q($n: String, $a: I32) { update Person set { age: $a } where name = $n }",
                {"n": _name(changed[0]), "a": number},
                branch=branch,
            )
        graph.load({"Person": _people(changed, older_by=100 * number)}, branch=branch, mode="merge")
        before = graph.commits()[0].id
        graph.mutate(
            "query q($n: String, $a: I32) { update Person set { age: $a } where name = $n }",
            {"n": _name(_other_than(changed, self.rows)), "a": number},
        )
        with times.of("diff", *size):
            (delta,) = graph.diff(before, branch)
            assert delta.updated[1].num_rows == len(changed)
        with times.of("merge", *size):
            assert graph.merge(branch).kind == "merged"
        graph.branches.delete(branch)


class BareLance:
    """One table of the same content, without versions of anything."""

    name = "bare Lance"
    steps = (READ,)

    @staticmethod
    def make(folder: Path, rows: int) -> None:
        """Fill it."""
        for start in range(0, rows, 1_000_000):
            some = _people(range(start, min(rows, start + 1_000_000)))
            some = some.add_column(0, "id", some.column("name"))
            place = folder / f"table-{rows}"
            lance.write_dataset(some, place, mode="append" if start else "create", data_storage_version=FILE_FORMAT)

    def __init__(self, folder: Path, rows: int) -> None:
        self.rows = rows
        self.table = lance.dataset(folder / f"table-{rows}")

    def round(self, _: int, changed: list[int], times: Times) -> None:
        """Read them."""
        places = sorted(changed)
        with times.of(READ, len(changed), self.rows):
            assert self.table.take(places).num_rows == len(changed)


class DoltLite:
    """SQLite with the version control of Dolt."""

    name = "doltlite"
    steps = STEPS

    @classmethod
    def make(cls, folder: Path, rows: int) -> None:
        """Fill it."""
        made = cls(folder, rows)
        made.base.execute("create table person(name text primary key, age int, city text)")
        made._in_one(
            "insert into person values (?, ?, ?)",
            ((_name(each), _age(each), f"city {each % 100}") for each in range(rows)),
        )
        made._commit()
        made.base.close()

    def __init__(self, folder: Path, rows: int) -> None:
        self.rows = rows
        self.base = sqlite3.connect(folder / f"dolt-{rows}.db", isolation_level=None)

    def round(self, number: int, changed: list[int], times: Times) -> None:
        """The same on it."""
        branch, size = f"b{number}", (len(changed), self.rows)
        with times.of("branch create", *size):
            self._call(f"dolt_branch('{branch}')")
        self._call(f"dolt_checkout('{branch}')")
        with times.of("first write on it", *size):
            self.base.execute("update person set age = ? where name = ?", (number, _name(changed[0])))
            self._commit()
        older = ((_age(each) + 100 * number, _name(each)) for each in changed)
        self._in_one("update person set age = ? where name = ?", older)
        self._commit()
        self._call("dolt_checkout('main')")
        self._call(f"dolt_branch('before{number}')")
        other = _name(_other_than(changed, self.rows))
        self.base.execute("update person set age = ? where name = ?", (number, other))
        self._commit()
        with times.of("diff", *size):
            query = f"select * from dolt_diff_person('before{number}', '{branch}')"
            assert len(self.base.execute(query).fetchall()) == len(changed)
        with times.of("merge", *size):
            self._call(f"dolt_merge('{branch}')")
        for each in (branch, f"before{number}"):
            self._call(f"dolt_branch('-D', '{each}')")

    def _call(self, what: str) -> None:
        self.base.execute(f"select {what}").fetchall()

    def _commit(self) -> None:
        self._call("dolt_commit('-A', '-m', 'x')")

    def _in_one(self, statement: str, rows: Any) -> None:
        self.base.execute("begin")
        self.base.executemany(statement, rows)
        self.base.execute("commit")


def _name(number: int) -> str:
    return f"p{number:08d}"


def _other_than(changed: list[int], rows: int) -> int:
    taken = set(changed)
    return next(each for each in range(rows) if each not in taken)


def _age(number: int) -> int:
    """Ages that differ from row to row: Lance reads a long run of one value as a whole."""
    return number * 7_919 % 90


def _people(numbers: Any, older_by: int = 0) -> pa.Table:
    return pa.table(
        {
            "name": [_name(each) for each in numbers],
            "age": pa.array([_age(each) + older_by for each in numbers], pa.int32()),
            "city": [f"city {each % 100}" for each in numbers],
        }
    )


def _made(kind: Any, folder: Path, sizes: list[int]) -> Path:
    """One of each size, filled once and copied for each number of changes."""
    place = folder / kind.name.replace(" ", "-")
    place.mkdir()
    for rows in sizes:
        kind.make(place, rows)
    return place


def _measure(kind: Any, made: Path, sizes: list[int], changed: int, rounds: int, times: Times) -> None:
    chance = random.Random(1)
    place = made.with_name(f"{made.name}-{changed}")
    shutil.copytree(made, place)
    systems = [kind(place, rows) for rows in sizes]
    for turn in range(-1, rounds):
        for at, system in enumerate(systems):
            chosen = chance.sample(range(system.rows), min(changed, system.rows - 1))
            # The first round only warms up.
            system.round(1_000 + turn * len(systems) + at, chosen, times if turn >= 0 else Times(times.clock))


def _print(kind: Any, times: Times, sizes: list[int], changed: int) -> None:
    for step in kind.steps:
        kept = [(min(changed, rows - 1), rows) for rows in sizes]
        shown = [times.lower(step, *each) for each in kept]
        noise = max(times.noise(step, *each) for each in kept)
        cells = " | ".join(f"{each:,.1f}" for each in shown)
        print(
            f"| {kind.name} | {step} | {changed:,} | {cells} | {shown[-1] / shown[0]:.2f} | +{noise:.0%} |", flush=True
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--large", action="store_true", help="a table of 10^7 rows, too")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cpu", action="store_true", help="processor time instead of wall time")
    parser.add_argument("--alone", action="store_true", help="without the peer")
    parser.add_argument("--changes", type=int, nargs="*", default=[10, 10_000], help="how many rows are changed")
    parser.add_argument("--sizes", type=int, nargs="*", help="other sizes than 10^4, 10^5 and 10^6")
    options = parser.parse_args()
    sizes = options.sizes or [10_000, 100_000, 1_000_000, *([10_000_000] if options.large else [])]
    print("| | step | rows changed | " + " | ".join(f"{each:,} rows" for each in sizes) + " | ratio | noise |")
    print("|---" * (len(sizes) + 5) + "|")
    systems: list[Any] = [OmniGraph, BareLance, *([DoltLite] if doltlite is not None and not options.alone else [])]
    with tempfile.TemporaryDirectory() as folder:
        made = {kind.name: _made(kind, Path(folder), sizes) for kind in systems}
        for changed in options.changes:
            for kind in systems:
                times = Times(time.process_time if options.cpu else time.perf_counter)
                _measure(kind, made[kind.name], sizes, changed, options.rounds, times)
                _print(kind, times, sizes, changed)
    if doltlite is None:
        print("\ndoltlite is not installed (pip install --group bench): left out.")


if __name__ == "__main__":
    main()
