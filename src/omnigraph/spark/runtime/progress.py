"""Reports the progress of Spark jobs, by stages and tasks, to a callback or as a bar on the terminal.

A stage counts once it has a task: adaptive execution plans stages that never run, so a total of all planned stages
would never be reached.
"""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, cast

from py4j.protocol import Py4JError
from pyspark.sql.utils import is_remote

from omnigraph.world import REAL, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.shell.progress import ProgressHandler, StageInfo

_EVERY = 0.25
_WIDTH = 24
_GROUP = "spark.jobGroup.id"
_DESCRIPTION = "spark.job.description"


@dataclass(frozen=True)
class Progress:
    """A snapshot of a job's progress. Totals grow as Spark plans the tasks of later stages."""

    label: str
    seconds: float
    stages_done: int = 0
    stages: int = 0
    tasks_done: int = 0
    tasks: int = 0
    tasks_running: int = 0

    @property
    def share(self) -> float:
        """The fraction of known tasks that is done, from 0 to 1."""
        return self.tasks_done / self.tasks if self.tasks else 0.0

    def __str__(self) -> str:
        filled = round(self.share * _WIDTH)
        bar = "█" * filled + "░" * (_WIDTH - filled)
        stage = min(self.stages_done + 1, max(self.stages, 1))
        return f"{self.label} {bar} stage {stage}, task {self.tasks_done}/{self.tasks}, {self.seconds:.0f} s"


@dataclass(frozen=True)
class _Stage:
    tasks: int
    done: int
    running: int


@contextmanager
def watch(
    session: SparkSession,
    label: str,
    report: Callable[[Progress], None],
    *,
    every: float = _EVERY,
    world: World = REAL,
) -> Iterator[None]:
    """Call `report` from another thread while the jobs of the block run. Ctrl-C in the block cancels them."""
    watching = _watch_server if is_remote() else _watch_driver
    started = world.monotonic()

    def report_stages(stages: Iterable[_Stage]) -> None:
        report(_sum(label, world.monotonic() - started, list(stages)))

    with watching(session, label, report_stages, every, world):
        yield


@contextmanager
def progress_bar(
    session: SparkSession, label: str, *, stream: IO[str] | None = None, world: World = REAL
) -> Iterator[None]:
    """Show a progress bar while the block runs and erase it at the end. Does nothing if `stream` is no terminal."""
    target = sys.stderr if stream is None else stream
    if not target.isatty():
        yield
        return

    def draw(progress: Progress) -> None:
        target.write(f"\r\x1b[2K{progress}")
        target.flush()

    try:
        with watch(session, label, draw, world=world):
            yield
    finally:
        target.write("\r\x1b[2K")
        target.flush()


def _sum(label: str, seconds: float, stages: list[_Stage]) -> Progress:
    return Progress(
        label,
        seconds,
        stages_done=sum(each.done >= each.tasks for each in stages),
        stages=len(stages),
        tasks_done=sum(each.done for each in stages),
        tasks=sum(each.tasks for each in stages),
        tasks_running=sum(each.running for each in stages),
    )


@contextmanager
def _watch_driver(
    session: SparkSession, label: str, report_stages: Callable[[Iterable[_Stage]], None], every: float, world: World
) -> Iterator[None]:
    context, group, finished = session.sparkContext, f"omnigraph-{world.ulid()}", threading.Event()
    before = [(name, context.getLocalProperty(name)) for name in (_GROUP, _DESCRIPTION)]
    poller = threading.Thread(target=_poll, args=(context, group, report_stages, every, finished), daemon=True)
    context.setJobGroup(group, label)
    poller.start()
    try:
        yield
    except KeyboardInterrupt:
        context.cancelJobGroup(group)
        raise
    finally:
        finished.set()
        poller.join()
        for name, value in before:
            context.setLocalProperty(name, value)  # type: ignore[arg-type]


def _poll(
    context: SparkContext,
    group: str,
    report_stages: Callable[[Iterable[_Stage]], None],
    every: float,
    finished: threading.Event,
) -> None:
    while True:
        last = finished.wait(every)
        try:
            report_stages(list(_stages(context, group)))
        except (Py4JError, OSError):
            return  # Spark has stopped; the thread that runs the job gets the error from the job itself
        if last:
            return


def _stages(context: SparkContext, group: str) -> Iterator[_Stage]:
    tracker = context.statusTracker()
    for job in sorted(tracker.getJobIdsForGroup(group)):
        info = tracker.getJobInfo(job)
        for number in info.stageIds if info is not None else ():
            stage = tracker.getStageInfo(number)
            if stage is not None and (stage.numActiveTasks or stage.numCompletedTasks):
                yield _Stage(stage.numTasks, stage.numCompletedTasks, stage.numActiveTasks)


@contextmanager
def _watch_server(
    session: SparkSession, label: str, report_stages: Callable[[Iterable[_Stage]], None], every: float, world: World
) -> Iterator[None]:
    """Watch over Connect: the server pushes progress to all handlers of the session."""
    del label, every
    tag = f"omnigraph-{world.ulid()}"

    def handler(stages: Iterable[StageInfo] | None, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        del operation_id, done
        current = [_Stage(each.num_tasks, each.num_completed_tasks, 0) for each in stages or ()]
        report_stages([*current, _Stage(0, 0, inflight_tasks)] if inflight_tasks else current)

    # pyspark accepts any callable, although the signature requires a subclass of an abstract class.
    as_handler = cast("ProgressHandler", handler)
    session.addTag(tag)
    session.registerProgressHandler(as_handler)
    try:
        yield
    except KeyboardInterrupt:
        session.interruptTag(tag)
        raise
    finally:
        session.removeProgressHandler(as_handler)
        session.removeTag(tag)
