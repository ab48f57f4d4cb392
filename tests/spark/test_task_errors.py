"""An error of a task arrives at the driver as what it was, from the text of its traceback."""

from __future__ import annotations

import datetime as dt
import json
import traceback
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from omnigraph.errors import (
    Diagnostic,
    InvalidInput,
    MergeConflicts,
    ObjectNotFound,
    OmniGraphError,
    QueryError,
    ReadSetChanged,
    SchemaChanged,
    UniqueViolation,
)
from omnigraph.errors.commits import Conflict
from omnigraph.errors.root import unpack_error
from omnigraph.spark.runner import errors_of_tasks, one_task_each, telling_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    "raised", [InvalidInput("no such thing"), SchemaChanged("main"), ObjectNotFound("gone", location="x")]
)
def test_the_error_of_a_task_is_raised_again(raised: OmniGraphError) -> None:
    told = "".join(traceback.format_exception(raised))
    with pytest.raises(type(raised)) as caught, errors_of_tasks():
        raise PySparkException(f"Traceback (most recent call last):\n{told}")
    assert caught.value.message == raised.message


DIAGNOSTIC = Diagnostic("no such type", "Q001", start=3, end=7, line=2, column=4)
CONFLICT = Conflict("DivergentUpdate", "node:Person", "Ada", "two values", {"age": 1}, None, {"x": [1]}, ("age",))
VALUES = (dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.date(2026, 1, 1), b"x", 1.5, None, True)
PLACES = ("os:system", "omnigraph.errors.root:json", "omnigraph.errors.nothing:X", "x")


@pytest.mark.parametrize(
    "raised",
    [
        SchemaChanged("main"),
        ObjectNotFound("gone", location="x"),
        InvalidInput("two\nlines: é"),
        QueryError((DIAGNOSTIC, DIAGNOSTIC)),
        MergeConflicts("side", "main", (CONFLICT,), 3),
        ReadSetChanged("main", ["node:Person"]),
        UniqueViolation("twice", type_name="P", properties=("a",), values=VALUES, row_id="Ada", holder="Bob"),
    ],
)
def test_the_error_of_a_task_has_all_its_fields(raised: OmniGraphError) -> None:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        raise raised

    with pytest.raises(type(raised)) as in_task:
        list(telling_errors(work)(iter([])))
    told = "".join(traceback.format_exception(in_task.value))
    with pytest.raises(type(raised)) as caught, errors_of_tasks():
        raise PySparkException(f"Traceback (most recent call last):\n{told}")
    assert (caught.value.message, str(caught.value)) == (raised.message, str(raised))
    held = {name: value for name, value in vars(raised).items() if name != "__notes__"}
    assert {name: value for name, value in vars(caught.value).items() if name != "__notes__"} == held


@pytest.mark.parametrize("place", PLACES)
def test_a_text_makes_errors_alone(place: str) -> None:
    line = json.dumps({"error": place, "message": "id", "fields": {"dict": []}})
    assert unpack_error(line) is None
    assert unpack_error(line.replace('"error"', '"record"')) is None


@pytest.mark.spark
def test_spark_brings_the_fields_of_an_error(spark: SparkSession) -> None:
    def work(number: int) -> Iterator[pa.RecordBatch]:
        raise SchemaChanged(f"branch-{number}")
        yield  # a generator, as tasks are

    frame = one_task_each(spark, [7], work, pa.schema([("n", pa.int64())]))
    with pytest.raises(SchemaChanged) as caught, errors_of_tasks():
        frame.toArrow()
    assert caught.value.branch == "branch-7"


def test_what_is_not_ours_stays_what_it_is() -> None:
    with pytest.raises(PySparkException, match="ValueError"), errors_of_tasks():
        raise PySparkException("Traceback (most recent call last):\nValueError: x")
