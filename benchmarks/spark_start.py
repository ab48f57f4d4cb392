"""How long until the first result of a Spark session: a plain one, and ours without and with its class archive.

Each run is a process of its own, from the start of Python to the first counted row; variants take turns, so that the
machine's moods hit all of them. Printed: the median, the spread, and the ratio to the plain session of the same run.

    python benchmarks/spark_start.py [runs]
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

from omnigraph.spark.runtime.class_archive import archive_for, build_now
from omnigraph.spark.runtime.java import find_java
from omnigraph.world import REAL

PLAIN = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").getOrCreate()
"""
OURS = """
from omnigraph.spark.runtime.session import spark_session
spark = spark_session(master="local[2,4]")
"""
COUNT = """
assert spark.range(1000).selectExpr("sum(id)").first()[0] == 499500
"""
MARK = """
import os
os.write(3, b"x")
"""


def main() -> None:
    """Run and print."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    if not archive_for(find_java(REAL), REAL).is_there:
        print("building the class archive once ...", flush=True)
        build_now(REAL)
    variants = {
        "plain session": (PLAIN, "off"),
        "ours, no archive yet": (OURS, "off"),
        "ours, with archive": (OURS, "use"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(runs + 1):
        for name, (program, archive) in variants.items():
            taken = time_to_first_result(program + COUNT, archive)
            if number:  # the first round warms the disk cache
                seconds[name].append(taken)
    report(seconds)


def time_to_first_result(program: str, archive: str) -> float:
    """From starting Python to the moment the program marks, whatever its exit costs."""
    environment = {**os.environ, "OMNIGRAPH_SPARK_ARCHIVE": archive, "PYSPARK_PYTHON": sys.executable}
    readable, writable = os.pipe()
    with tempfile.TemporaryFile() as said:
        started = time.perf_counter()
        # The mark goes to descriptor 3 by way of the shell, since Python hands on descriptors under their own numbers.
        process = subprocess.Popen(
            ["/bin/sh", "-c", f'exec "$0" -c "$1" 3>&{writable}', sys.executable, program + MARK],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            pass_fds=[writable],
        )
        os.close(writable)
        marked = os.read(readable, 1)
        taken = time.perf_counter() - started
        os.close(readable)
        process.wait()
        if not marked:
            said.seek(0)
            raise SystemExit(said.read().decode(errors="replace"))
    return taken


def report(seconds: dict[str, list[float]]) -> None:
    """One line per variant."""
    plain = statistics.median(seconds["plain session"])
    print(f"java {find_java(REAL).version}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"{'to the first result':<24}{'median':>9}{'spread':>16}{'ratio':>8}")
    for name, taken in seconds.items():
        median = statistics.median(taken)
        spread = f"{min(taken):.1f} to {max(taken):.1f} s"
        print(f"{name:<24}{median:>7.2f} s{spread:>16}{median / plain:>8.2f}")


if __name__ == "__main__":
    main()
