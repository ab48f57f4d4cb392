"""Whether Spark is there, asked before a module that needs it is imported."""

from __future__ import annotations

from importlib.util import find_spec

from omnigraph.errors import SparkUnavailable


def require_spark(what: str) -> None:
    """`SparkUnavailable` when pyspark is not installed. `what` begins the message."""
    if find_spec("pyspark") is None:
        raise SparkUnavailable(f"{what} runs on Spark, which is not installed: pip install 'omnigraph[spark]'.")
