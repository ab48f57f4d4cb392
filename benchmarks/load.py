"""Bulk loads: our validated load on Spark beside a plain Lance write of the same rows, Spark to Parquet, kuzu, ladybug.

    python benchmarks/load.py [--nodes 5000000] [--edges 20000000] [--double] [--merge] [--only ours,lance,…]

Each runs in a process of its own, from the same Parquet files, in one run. Rows per second are of the load alone,
without the start of Spark; memory is the peak, and CPU the sum, of all its processes from their start. `--double` loads
twice the input as well, `--merge` merges 100,000 rows into graphs of 1 and 10 million nodes. `--inputs` keeps the input
files in a directory, and uses those that are there; `--prepare` makes them and measures nothing.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

SCHEMA = """
node Person {
    name: String @key
    age: I32
    email: String
    score: F64?
    @range(age, 0..150)
}
edge Knows: Person -> Person {
    since: Date
    weight: F64
}
"""
GROUP = 250_000
SYSTEMS = ("ours", "lance", "parquet", "kuzu", "ladybug")
NAMES = {
    "ours": "our load, validated",
    "lance": "plain lance.write_dataset",
    "parquet": "Spark to Parquet",
    "kuzu": "kuzu COPY",
    "ladybug": "ladybug COPY",
}


def main() -> None:
    """Run and print."""
    asked = arguments()
    if asked.child:
        print(json.dumps(CHILDREN[asked.child](Path(asked.data), Path(asked.into), asked)))
        return
    with tempfile.TemporaryDirectory(prefix="load-", dir=asked.directory) as directory:
        place = Path(directory)
        if asked.prepare:
            prepare(place, asked)
            return
        print(f"{asked.nodes:,} nodes, {asked.edges:,} edges; {machine()}", flush=True)
        results = compare(place, asked)
        if results:
            show(results, asked.nodes + asked.edges)
        if asked.double:
            double(place, asked, results)
        if asked.merge:
            merges(place, asked)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5_000_000)
    parser.add_argument("--edges", type=int, default=20_000_000)
    parser.add_argument("--only", default=",".join(SYSTEMS))
    parser.add_argument("--double", action="store_true")
    parser.add_argument("--merge", action="store_true")
    parser.add_argument("--into-small", type=int, default=1_000_000)
    parser.add_argument("--into-large", type=int, default=10_000_000)
    parser.add_argument("--memory", default="2g", help="the heap of the Java process")
    parser.add_argument("--directory", default=None)
    parser.add_argument("--inputs", default=None)
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--child", choices=[*SYSTEMS, "merge"], help=argparse.SUPPRESS)
    parser.add_argument("--data", default="", help=argparse.SUPPRESS)
    parser.add_argument("--into", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


# -- the input ---------------------------------------------------------------------------------------------------------


def prepare(place: Path, asked: argparse.Namespace) -> None:
    """Make every input that was asked for."""
    sizes = [(asked.nodes, asked.edges)] if asked.only else []
    sizes += [(2 * asked.nodes, 2 * asked.edges)] if asked.double else []
    sizes += [(asked.into_small, 1), (asked.into_large, 1)] if asked.merge else []
    for nodes, edges in sizes:
        input_of(place, asked, nodes, edges)


def input_of(place: Path, asked: argparse.Namespace, nodes: int, edges: int) -> Path:
    """The input of a size, made when it is not there."""
    made = (Path(asked.inputs) if asked.inputs else place) / f"input-{nodes}-{edges}"
    if not made.exists():
        make_input(made, nodes, edges)
    return made


def make_input(place: Path, nodes: int, edges: int) -> None:
    """Parquet files with row groups of 250,000 rows, the same for every system."""
    place.mkdir(parents=True)
    dice = np.random.default_rng(7)
    with pq.ParquetWriter(place / "Person.parquet", people(0, 1, dice).schema) as writer:
        for start in range(0, nodes, GROUP):
            writer.write_table(people(start, min(GROUP, nodes - start), dice))
    with pq.ParquetWriter(place / "Knows.parquet", friendships(1, 1, dice).schema) as writer:
        for start in range(0, edges, GROUP):
            writer.write_table(friendships(nodes, min(GROUP, edges - start), dice))


def people(start: int, rows: int, dice: np.random.Generator) -> pa.Table:
    """Rows of Person."""
    numbers = np.arange(start, start + rows)
    return pa.table(
        {
            "name": names(numbers),
            "age": pa.array(dice.integers(0, 100, rows), pa.int32()),
            "email": joined("person", pa.array(numbers).cast(pa.string()), "@example.com"),
            "score": pa.array(dice.random(rows)),
        }
    )


def friendships(nodes: int, rows: int, dice: np.random.Generator) -> pa.Table:
    """Rows of Knows between any of so many nodes."""
    return pa.table(
        {
            "from": names(dice.integers(0, nodes, rows)),
            "to": names(dice.integers(0, nodes, rows)),
            "since": pa.array(dice.integers(10_000, 20_000, rows), pa.int32()).cast(pa.date32()),
            "weight": pa.array(dice.random(rows)),
        }
    )


def names(numbers: np.ndarray[Any, Any]) -> pa.Array[Any]:
    """The key of each number."""
    return joined("person-", pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 9, "0"))


def joined(*parts: Any) -> pa.Array[Any]:
    """Texts after one another."""
    texts: Any = pc.call_function("binary_join_element_wise", [*parts, ""])
    return texts


# -- the systems, each in its own process ------------------------------------------------------------------------------


def load_ours(data: Path, into: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """Our load, with everything validated."""
    import omnigraph as og
    from omnigraph.spark.load import load_session
    from omnigraph.spark.runtime.session import stop_session
    from omnigraph.world import REAL

    graph = og.init(into, schema=SCHEMA)
    began = time.perf_counter()
    session = load_session(world=REAL, master=f"local[{cores()},4]", memory=asked.memory)
    session.range(1).count()
    started = time.perf_counter()
    source = {"Person": str(data / "Person.parquet"), "Knows": str(data / "Knows.parquet")}
    done = graph.load(source, mode="append", engine="spark", spark=session)
    seconds = time.perf_counter() - started
    stop_session(session)
    assert done.summary.rows == asked.nodes + asked.edges
    return {"seconds": seconds, "start": started - began, "stages": done.summary.to_dict()["stages"]}


def write_lance(data: Path, into: Path, _asked: argparse.Namespace | None) -> dict[str, Any]:
    """The rows as our load stores them, streamed from the same files into two tables, with nothing checked."""
    import lance

    from omnigraph.values.row_ids import mint_ulids
    from omnigraph.world import REAL

    started = time.perf_counter()
    for kind, key in (("Person", "name"), ("Knows", None)):
        file = pq.ParquetFile(data / f"{kind}.parquet")
        rows = (
            _stored(batch, batch.column(key) if key else mint_ulids(len(batch), REAL)) for batch in file.iter_batches()
        )
        schema = pa.schema([("id", pa.string()), *((_name(each.name), each.type) for each in file.schema_arrow)])
        lance.write_dataset(pa.RecordBatchReader.from_batches(schema, rows), into / f"{kind}.lance", schema=schema)
    return {"seconds": time.perf_counter() - started}


def _stored(batch: pa.RecordBatch, ids: pa.Array[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([ids, *batch.columns], names=["id", *map(_name, batch.schema.names)])


def _name(column: str) -> str:
    return {"from": "src", "to": "dst"}.get(column, column)


def write_parquet(data: Path, into: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """Spark reads the files and writes them."""
    from omnigraph.spark.runtime.session import spark_session, stop_session

    session = spark_session(master=f"local[{cores()},4]", memory=asked.memory)
    session.range(1).count()
    started = time.perf_counter()
    for kind in ("Person", "Knows"):
        session.read.parquet(str(data / f"{kind}.parquet")).write.parquet(str(into / kind))
    seconds = time.perf_counter() - started
    stop_session(session)
    return {"seconds": seconds}


def copy_kuzu(data: Path, into: Path, _asked: argparse.Namespace) -> dict[str, Any]:
    """Its own bulk load."""
    import kuzu

    return _copy(kuzu, data, into)


def copy_ladybug(data: Path, into: Path, _asked: argparse.Namespace) -> dict[str, Any]:
    """Its own bulk load."""
    import ladybug

    return _copy(ladybug, data, into)


def _copy(engine: Any, data: Path, into: Path) -> dict[str, Any]:
    into.parent.mkdir(parents=True, exist_ok=True)
    connection = engine.Connection(engine.Database(str(into)))
    connection.execute(
        "CREATE NODE TABLE Person(name STRING, age INT32, email STRING, score DOUBLE, PRIMARY KEY(name))"
    )
    connection.execute("CREATE REL TABLE Knows(FROM Person TO Person, since DATE, weight DOUBLE)")
    started = time.perf_counter()
    for kind in ("Person", "Knows"):
        connection.execute(f'COPY {kind} FROM "{data / kind}.parquet"')
    seconds = time.perf_counter() - started
    connection.close()
    return {"seconds": seconds}


def merge_ours(data: Path, into: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """100,000 rows, half of them known, into a graph that is there; medians of three, each with other rows."""
    import omnigraph as og
    from omnigraph.spark.load import load_session
    from omnigraph.spark.runtime.session import stop_session
    from omnigraph.world import REAL

    graph = og.init(into, schema=SCHEMA)
    session = load_session(world=REAL, master=f"local[{cores()},4]", memory=asked.memory)
    graph.load({"Person": str(data / "Person.parquet")}, mode="append", engine="spark", spark=session)
    dice = np.random.default_rng(3)
    told: dict[str, list[float]] = {"spark": [], "local": []}
    engines: tuple[Literal["spark", "local"], ...] = ("spark", "local")
    for turn in range(6):
        engine, new = engines[turn % 2], 10**8 + turn * 50_000
        numbers = np.concatenate([dice.choice(asked.nodes, 50_000, replace=False), np.arange(new, new + 50_000)])
        rows = people(0, len(numbers), dice).set_column(0, "name", names(numbers))
        pq.write_table(rows, into.parent / "merge.parquet")
        started = time.perf_counter()
        done = graph.load({"Person": str(into.parent / "merge.parquet")}, mode="merge", engine=engine, spark=session)
        told[engine].append(time.perf_counter() - started)
        assert done.summary.rows == len(numbers)
    stop_session(session)
    return {engine: statistics.median(seconds) for engine, seconds in told.items()}


CHILDREN = {
    "ours": load_ours,
    "lance": write_lance,
    "parquet": write_parquet,
    "kuzu": copy_kuzu,
    "ladybug": copy_ladybug,
    "merge": merge_ours,
}


# -- measuring ---------------------------------------------------------------------------------------------------------


def compare(place: Path, asked: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Every system on the same files."""
    results: dict[str, dict[str, Any]] = {}
    for system in filter(None, asked.only.split(",")):
        data = input_of(place, asked, asked.nodes, asked.edges)
        if system in ("kuzu", "ladybug") and importlib.util.find_spec(system) is None:
            print(f"{NAMES[system]}: left out, {system} is not installed (pip install {system})")
            continue
        results[system] = run(system, data, place / system, asked)
        shutil.rmtree(place / system, ignore_errors=True)
    return results


def run(system: str, data: Path, into: Path, asked: argparse.Namespace, nodes: int = 0) -> dict[str, Any]:
    """One system in a process of its own, with the memory of its whole family sampled."""
    command = [sys.executable, __file__, "--child", system, "--data", str(data), "--into", str(into)]
    command += ["--nodes", str(nodes or asked.nodes), "--edges", str(asked.edges), "--memory", asked.memory]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peaks: dict[str, int] = {}
    done = threading.Event()
    spent: dict[int, float] = {}
    sampler = threading.Thread(target=sample, args=(child.pid, peaks, spent, done))
    sampler.start()
    answer, _ = child.communicate()
    done.set()
    sampler.join()
    if child.returncode:
        raise SystemExit(f"{NAMES.get(system, system)} failed")
    told: dict[str, Any] = json.loads(answer.splitlines()[-1])
    return {**told, "peaks": peaks, "cpu": sum(spent.values()), "bytes": size_of(into)}


def sample(pid: int, peaks: dict[str, int], spent: dict[int, float], done: threading.Event) -> None:
    """Note the peaks of memory and the CPU time of a family of processes."""
    while not done.wait(0.1):
        now: dict[str, int] = {}
        for process in family(pid):
            kind, resident = resident_of(process, pid)
            now[kind] = now.get(kind, 0) + resident
            spent[process] = max(spent.get(process, 0.0), cpu_of(process))
        now["all"] = sum(now.values())
        for kind, resident in now.items():
            peaks[kind] = max(peaks.get(kind, 0), resident)


def family(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for each in found:
        try:
            for task in Path(f"/proc/{each}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
        except OSError:
            continue
    return found


def resident_of(process: int, root: int) -> tuple[str, int]:
    """What a process is in the family, and how much memory it holds."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        command = Path(f"/proc/{process}/comm").read_text()
    except (OSError, IndexError):
        return "workers", 0
    kind = "driver" if process == root else "java" if "java" in command else "workers"
    return kind, pages * os.sysconf("SC_PAGE_SIZE")


def cpu_of(process: int) -> float:
    """CPU seconds that a process has used."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def size_of(place: Path) -> int:
    """Bytes on disk."""
    files = [place] if place.is_file() else [*place.parent.glob(f"{place.name}.*"), *place.rglob("*")]
    return sum(each.stat().st_size for each in files if each.is_file())


def show(results: dict[str, dict[str, Any]], rows: int) -> None:
    """The table."""
    floor = results.get("lance", {}).get("seconds")
    print("| | rows/s | seconds | to plain Lance | CPU s | memory: driver, Java, workers (MB) | on disk (MB) |")
    print("|---|---|---|---|---|---|---|")
    for system, told in results.items():
        ratio = f"{floor / told['seconds']:.2f}" if floor else "-"
        memory = ", ".join(f"{told['peaks'].get(kind, 0) / 1e6:,.0f}" for kind in ("driver", "java", "workers"))
        print(
            f"| {NAMES[system]} | {rows / told['seconds']:,.0f} | {told['seconds']:.1f} | {ratio} "
            f"| {told['cpu']:.1f} | {memory} | {told['bytes'] / 1e6:,.0f} |"
        )
    if "ours" in results:
        stages = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in results["ours"]["stages"].items())
        print(f"ours by stage: {stages}; the start of Spark took {results['ours']['start']:.1f} s", flush=True)


def double(place: Path, asked: argparse.Namespace, results: dict[str, dict[str, Any]]) -> None:
    """The same load with twice the input."""
    wide = argparse.Namespace(**{**vars(asked), "nodes": 2 * asked.nodes, "edges": 2 * asked.edges})
    data = input_of(place, asked, wide.nodes, wide.edges)
    told = run("ours", data, place / "ours-double", wide)
    once = results["ours"]["seconds"]
    print(f"twice the input: {told['seconds']:.1f} s, {told['seconds'] / once:.2f} times as long (goal: at most 2.2)")
    print(
        "memory then: " + ", ".join(f"{kind} {size / 1e6:,.0f} MB" for kind, size in told["peaks"].items()), flush=True
    )


def merges(place: Path, asked: argparse.Namespace) -> None:
    """A merge of 100,000 rows into a small and a large graph."""
    told = {}
    for nodes in (asked.into_small, asked.into_large):
        data = input_of(place, asked, nodes, 1)
        told[nodes] = run("merge", data, place / f"into-{nodes}" / "g", asked, nodes=nodes)
        shutil.rmtree(place / f"into-{nodes}")
    small, large = told[asked.into_small], told[asked.into_large]
    for engine in ("spark", "local"):
        print(
            f"merge of 100,000 rows by {engine}: into {asked.into_small:,} {small[engine]:.1f} s, into "
            f"{asked.into_large:,} {large[engine]:.1f} s, {large[engine] / small[engine]:.2f} times (goal: at most 3)"
        )


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))


def machine() -> str:
    """What it ran on."""
    load = os.getloadavg()[0]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return f"{cores()} cores, {memory:.0f} GiB, load average {load:.1f} at the start"


if __name__ == "__main__":
    main()
