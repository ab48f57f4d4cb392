"""A Spark driver in a process of its own that loads into one graph after the other, and may be stopped on its way."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crash.suspension.work import Answer
from crash.zygote import PATIENCE_SECONDS, state_of
from job import Outcome
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

TESTS = Path(__file__).parent.parent.parent


@dataclass
class Load:
    """A load that has begun; to a case it is what a child of the zygote is."""

    process: subprocess.Popen[str]

    @property
    def pid(self) -> int:
        return self.process.pid

    def is_stopped(self) -> bool:
        """Wait until it has stopped itself; false when it has ended instead."""
        deadline = REAL.monotonic() + PATIENCE_SECONDS
        while REAL.monotonic() < deadline:
            if state_of(self.pid) == "T":
                return True
            if self._has_answered():
                return False
            REAL.sleep(0.01)
        raise AssertionError("the driver neither stopped nor answered")

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """The driver outlives the load."""

    def outcome(self, _: float = PATIENCE_SECONDS) -> Outcome:
        """What the caller of the load was told."""
        return Outcome(value=Answer(**self.answer()["told"]))

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        while not (line := self.process.stdout.readline()).startswith("{"):
            assert line, "the driver has died"
        return dict(json.loads(line))

    def _has_answered(self) -> bool:
        assert self.process.stdout is not None
        return bool(select.select([self.process.stdout], [], [], 0)[0])


class SparkDriver:
    """The process. Its tasks are not stopped: failpoints are armed in the driver alone."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "crash.suspension.spark_driver"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **REAL.environ,
                "OMNIGRAPH_SPARK_ARCHIVE": "use",
                **environment,
                "PYTHONPATH": os.pathsep.join(filter(None, [str(TESTS), REAL.environ.get("PYTHONPATH", "")])),
            },
            cwd=TESTS,
        )
        assert self._process.stdout is not None
        while (line := self._process.stdout.readline()) != "ready\n":
            assert line, "the driver has died"

    def load(self, uri: str, failpoints: str, *, lose: int = 0) -> Load:
        """Begin a load. `lose`: the durable step whose answer is lost; the load must reach it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([uri, failpoints, lose]) + "\n")
        self._process.stdin.flush()
        return Load(self._process)

    def steps(self, uri: str) -> int:
        """How many durable steps a load takes in peace."""
        return int(self.load(uri, "").answer()["steps"])

    def __enter__(self) -> SparkDriver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.kill(self._process.pid, signal.SIGCONT)
        try:
            self._process.communicate(timeout=60)
        finally:
            self._process.kill()


def main() -> None:
    """Load as often as a line asks for it; end with the input."""
    import omnigraph as og
    from crash import workloads
    from crash.suspension.lost_answers import LostAnswer
    from crash.suspension.operations import VICTIM
    from crash.suspension.work import answer_of
    from omnigraph import failpoints
    from omnigraph.spark.runtime.session import spark_session, stop_session

    spark = spark_session(
        master="local[2,4]",
        memory="512m",
        options={"spark.sql.shuffle.partitions": "2"},
        java_options=["-XX:TieredStopAtLevel=1"],
    )
    many = 1_000_000
    print("ready", flush=True)
    for line in sys.stdin:
        uri, armed, lose = json.loads(line)
        failpoints.arm(armed or f"store.write=raise@{many}")
        lost = LostAnswer(lose)
        if lose:
            lost.arm()
        try:
            og.open(uri, actor=VICTIM).load(workloads.load_rows(0), mode="merge", engine="spark", spark=spark)
            told = Answer()
        except Exception as error:  # noqa: BLE001 - whatever a caller would see
            told = answer_of(error)
        left = failpoints._armed["store.write"].skip if "store.write" in failpoints._armed else many
        failpoints.arm("")
        assert lost.happened == bool(lose), "the load did not come to the step"
        print(json.dumps({"told": vars(told), "steps": many - 1 - left}), flush=True)
    stop_session(spark)


if __name__ == "__main__":
    main()
