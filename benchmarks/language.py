"""How long the schema language takes: parse, compile, store and plan, and whether the time is linear.

Run `python benchmarks/language.py`. Times are the best of five runs in this process; the spread of those runs is the
machine's noise. The line to watch is `parse 5,000 lines`, which must stay under one second.
"""

from __future__ import annotations

import os
import subprocess
import sys
from time import perf_counter, process_time
from typing import TYPE_CHECKING

from omnigraph.language.evolution import plan_evolution
from omnigraph.language.schema.compile import compile_schema
from omnigraph.language.schema.parse import grammar, parse_schema
from omnigraph.language.schema.printer import print_schema
from omnigraph.language.stored.files import check_schema_files, schema_files
from omnigraph.language.stored.ir import catalog_to_ir, ir_hash

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS = 5
NODE = """\
// A document, number {number}.
node Doc{number} @description("A document") implements Named {{
    slug: String @key
    state: enum(open, closed, in-progress) @index
    bio: String? @description("short text")
    embedding: Vector(4)? @embed("bio", model="m-1") @index
    tags: [String]?
    score: F64?
    rank: I32 @default(0)
    @range(score, 0.0..1.5)
    @unique(rank, name)
}}

edge Cites{number}: Doc{number} -> Doc{number} @card(0..5) {{
    weight: F32? @index
    @unique(src, dst)
}}

"""


def schema(lines: int) -> str:
    """A realistic schema of about this many lines."""
    head = "interface Named {\n    name: String @index\n}\n"
    return head + "".join(NODE.format(number=number) for number in range(lines // NODE.count("\n")))


def timed(work: Callable[[], object], clock: Callable[[], float] = perf_counter) -> tuple[float, float]:
    """The best of several runs, and how much slower the worst was."""
    times = []
    for _ in range(RUNS):
        start = clock()
        work()
        times.append(clock() - start)
    return min(times), max(times) / min(times)


def started(module: str) -> Callable[[], object]:
    """A fresh Python that imports a module, with compiled files beside the sources as users have them."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    return lambda: subprocess.run([sys.executable, "-c", f"import {module}"], check=True, env=environment)


def show(what: str, work: Callable[[], object]) -> float:
    """Print one line and return the seconds."""
    best, noise = timed(work)
    print(f"{what:<44} {best * 1000:>9.1f} ms   worst run × {noise:.2f}")
    return best


def main() -> int:
    """Print the table; fail when the promised limit is broken."""
    half, full = schema(2_500), schema(5_000)
    print(f"{full.count(chr(10)):,} lines, {len(full) / 1024:.0f} KiB\n")
    show("start Python alone", started("sys"))
    show("start Python, import the language", started("omnigraph.language.schema"))
    show("start Python, import lark", started("lark"))
    show("build the grammar's tables", grammar.__wrapped__)
    parse_schema(full)
    _halved, parsed = (
        show("parse 2,500 lines", lambda: parse_schema(half)),
        show("parse 5,000 lines", lambda: parse_schema(full)),
    )
    show("parse and compile 5,000 lines", lambda: compile_schema(full))
    catalog, files = compile_schema(full), schema_files(full)
    stored = show("stored form and its hash", lambda: ir_hash(catalog_to_ir(catalog)))
    show(
        "check the files of a graph at open", lambda: check_schema_files(files.source, files.ir_json, files.state_json)
    )
    show("print", lambda: print_schema(catalog))
    show("plan an unchanged schema", lambda: plan_evolution(catalog, catalog))
    ratio = timed(lambda: parse_schema(full), process_time)[0] / timed(lambda: parse_schema(half), process_time)[0]
    print(f"\nparse, 5,000 against 2,500 lines: × {ratio:.2f} of processor time (linear is × 2)")
    print(f"parse per line: {parsed / full.count(chr(10)) * 1e6:.1f} µs; hash against parse: × {stored / parsed:.2f}")
    print(f"limit of 1 s for 5,000 lines: {'kept' if parsed < 1 else 'BROKEN'}")
    return 0 if parsed < 1 else 1


if __name__ == "__main__":
    sys.exit(main())
