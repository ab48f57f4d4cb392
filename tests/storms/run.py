"""A storm from the command line: `python -m storms.run --uri … --seconds 600 --seed 3`, with tests/ on PYTHONPATH.

Prints one line of JSON with counts and violations. Without `--uri` it is on a disk, with `--s3` on a SeaweedFS of its
own; the diaries of the processes are kept when something was wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crash.zygote import Zygote
from omnigraph.world import REAL
from servers.seaweed import Seaweed
from storms.diary import Diaries
from storms.driver import Storm, Weather
from storms.verify import Verifier
from storms.worker import build

if TYPE_CHECKING:
    from collections.abc import Sequence


def storm(uri: str, folder: Path, zygote: Zygote, weather: Weather) -> dict[str, Any]:
    """Build a graph, let a storm go over it, and look at what is left."""
    folder.mkdir(parents=True, exist_ok=True)
    build(uri)
    began = REAL.monotonic()
    raging = Storm(uri, folder, zygote, weather)
    raging.run()
    ended = REAL.monotonic()
    verdict = Verifier(uri, Diaries.read(folder)).run()
    return {
        **asdict(weather),
        "kills": raging.kills,
        "stops": raging.stops,
        "took": round(ended - began, 1),
        "verifying": round(REAL.monotonic() - ended, 1),
        **verdict.counts,
        "violations": len(verdict.wrong) + len(raging.hanging),
        "wrong": [*(f"{each} hangs" for each in raging.hanging), *verdict.wrong],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one storm; the exit status tells whether anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--uri")
    parser.add_argument("--s3", action="store_true", help="on a SeaweedFS that is started for it")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=7)
    parser.add_argument("--lease", type=float, default=2.0)
    parser.add_argument("--pause", type=float, default=0.7)
    parser.add_argument("--diaries", type=Path)
    for name in ("kills", "stops", "skews"):
        parser.add_argument(f"--no-{name}", action="store_true")
    asked = parser.parse_args(arguments)
    folder = asked.diaries or Path(tempfile.mkdtemp(prefix="storm"))
    weather = Weather(
        asked.seconds, asked.seed, asked.processes, asked.lease, asked.pause,
        kills=not asked.no_kills, stops=not asked.no_stops, skews=not asked.no_skews,
    )  # fmt: skip
    with ExitStack() as stack:
        uri = asked.uri or str(folder / "graph.omni")
        if asked.s3:
            server = Seaweed(folder / "seaweed").start()
            stack.callback(server.kill)
            os.environ.update(server.environment)  # noqa: TID251
            uri = f"s3://{server.bucket}/storm/graph.omni"
        told = storm(uri, folder / "diaries", stack.enter_context(Zygote()), weather)
    print(json.dumps(told))
    if told["violations"] == 0 and asked.diaries is None:
        shutil.rmtree(folder, ignore_errors=True)
    elif told["violations"]:
        print(f"the diaries are in {folder}", file=sys.stderr)
    return 1 if told["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
