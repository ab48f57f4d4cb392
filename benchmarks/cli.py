"""How long commands take to start, as ratios to a Python that does nothing and to one that imports Lance.

Run `python benchmarks/cli.py`. Each command runs several times, in turns with the other two, with compiled files beside
the sources as users have them; the best run counts, and the worst one tells the machine's noise. Commands that open no
graph promise to be done within 300 ms. The others cannot be quicker than `import lance`, which brings pyarrow, numpy
and, where it is installed, pandas.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

RUNS = 7
OPENING_RUNS = 3
LIMIT_MS = 300
SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person { since: Date? }\n"
CHANGED = "node Person { name: String @key  age: I64?  city: String? }\nedge Knows: Person -> Person { since: Date? }\n"
EMPTY, LANCE = "python -c pass", "import lance"
QUERIES = """
query friends($name: String) { match { $p: Person { name: $name }  $p knows $f } return { $f.name } }
query add($name: String, $age: I32) { insert Person { name: $name, age: $age } }
"""

PROMISED = {
    "--help": ["--help"],
    "branch --help": ["branch", "--help"],
    "load --help": ["load", "--help"],
    "version": ["version"],
    "profile list": ["profile", "list"],
    "completion bash": ["completion", "bash"],
    "lint (files)": ["lint", "--schema", "old.pg", "--query", "queries.gq"],
    "schema plan (files)": ["schema", "plan", "--from", "old.pg", "--schema", "new.pg"],
    "a mistake": ["snapshot", "--no-such-option"],
}
OPENING = {
    "snapshot": ["snapshot", "graph.omni"],
    "commit list": ["commit", "list", "graph.omni"],
    "branch list": ["branch", "list", "graph.omni"],
    "query": ["query", "friends", "--query", "queries.gq", "--store", "graph.omni", "--params", '{"name":"Ada"}'],
    "mutate": ["mutate", "add", "--query", "queries.gq", "--store", "graph.omni", "--params", '{"name":"Ada","age":1}'],
}


def timed(arguments: list[str], directory: str) -> float:
    """The seconds of one run in a process of its own."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "OMNIGRAPH_HOME": directory}
    start = perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=directory, env=environment, capture_output=True, check=False)
    return perf_counter() - start


def rows(directory: str) -> dict[str, list[float]]:
    """All times by command, those two among them, taken in turns."""
    commands = {EMPTY: ["-c", "pass"], LANCE: ["-c", "import lance"]}
    for name, arguments in {**PROMISED, **OPENING}.items():
        commands[name] = ["-m", "omnigraph.cli", *arguments]
    times: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(RUNS):
        for name, arguments in commands.items():
            if name not in OPENING or turn < OPENING_RUNS:
                times[name].append(timed(arguments, directory))
    return times


def main() -> int:
    """Print the table; fail when a promise is broken."""
    with tempfile.TemporaryDirectory() as directory:
        for name, text in (("old.pg", SCHEMA), ("new.pg", CHANGED), ("queries.gq", QUERIES)):
            Path(directory, name).write_text(text)
        timed(["-m", "omnigraph.cli", "init", "--schema", "old.pg", "graph.omni"], directory)
        times = rows(directory)
    empty, lance = min(times[EMPTY]), min(times[LANCE])
    print(f"{'command':<22} {'best':>8} {'to empty':>9} {'to lance':>9} {'worst':>8}")
    for name, each in times.items():
        best, noise = min(each), max(each) / min(each)
        print(f"{name:<22} {best * 1000:>5.0f} ms {best / empty:>8.1f}x {best / lance:>8.2f}x {noise:>7.2f}x")
    broken = [name for name in PROMISED if min(times[name]) * 1000 > LIMIT_MS]
    print(f"\nlimit of {LIMIT_MS} ms: {'broken by ' + ', '.join(broken) if broken else 'kept'}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
