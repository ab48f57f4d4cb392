from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from omnigraph.spark.runtime.progress import Progress, progress_bar, watch

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.spark
def test_a_job_is_told_while_it_runs_until_all_its_tasks_are_done(spark: SparkSession) -> None:
    told: list[Progress] = []
    with watch(spark, "counting", told.append, every=0.02):
        slow_job(spark).count()
    done = [each.tasks_done for each in told]
    assert done == sorted(done)
    assert done[0] < 8 <= done[-1]
    assert any(each.tasks_running for each in told)
    last = told[-1]
    assert (last.share, last.stages_done) == (1.0, last.stages)
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None


@pytest.mark.spark
def test_a_job_that_fails_is_told_up_to_its_failure(spark: SparkSession) -> None:
    told: list[Progress] = []
    with pytest.raises(ZeroDivisionError), watch(spark, "dividing", told.append, every=0.02):
        raise ZeroDivisionError
    assert told[-1].tasks == 0


@pytest.mark.spark
def test_a_terminal_gets_a_bar_that_is_gone_at_the_end(spark: SparkSession) -> None:
    terminal = Terminal()
    with progress_bar(spark, "counting", stream=terminal):
        slow_job(spark).count()
    assert "counting" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[2K")


@pytest.mark.spark
def test_anything_but_a_terminal_gets_nothing(spark: SparkSession) -> None:
    file = io.StringIO()
    with progress_bar(spark, "counting", stream=file):
        spark.range(10).count()
    assert file.getvalue() == ""


def test_a_bar_shows_the_share_that_is_done() -> None:
    half = Progress("loading", 12.4, stages_done=0, stages=1, tasks_done=4, tasks=8)
    assert str(half) == f"loading {'█' * 12}{'░' * 12} stage 1, task 4/8, 12 s"
    assert "task 0/0" in str(Progress("loading", 0.0))


def slow_job(session: SparkSession) -> DataFrame:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import time

        for batch in batches:
            time.sleep(0.1)  # noqa: TID251
            yield batch

    return session.range(0, 8, 1, 8).mapInArrow(task, "id long")
