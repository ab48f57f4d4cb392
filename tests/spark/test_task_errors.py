"""An error of a task arrives at the driver as what it was, from the text of its traceback."""

from __future__ import annotations

import traceback

import pytest
from pyspark.errors import PySparkException

from omnigraph.errors import InvalidInput, ObjectNotFound, OmniGraphError, SchemaChanged
from omnigraph.spark.runner import errors_of_tasks


@pytest.mark.parametrize(
    "raised", [InvalidInput("no such thing"), SchemaChanged("main"), ObjectNotFound("gone", location="x")]
)
def test_the_error_of_a_task_is_raised_again(raised: OmniGraphError) -> None:
    told = "".join(traceback.format_exception(raised))
    with pytest.raises(type(raised)) as caught, errors_of_tasks():
        raise PySparkException(f"Traceback (most recent call last):\n{told}")
    assert caught.value.message == raised.message


def test_what_is_not_ours_stays_what_it_is() -> None:
    with pytest.raises(PySparkException, match="ValueError"), errors_of_tasks():
        raise PySparkException("Traceback (most recent call last):\nValueError: x")
