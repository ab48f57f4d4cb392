"""The engines that a call can be run on: this process, Spark, or whichever fits."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal

from omnigraph.errors import InvalidInput, SparkUnavailable

ENGINES = ("auto", "local", "spark")
# Where the caller gets something else from Spark, nothing is chosen for them.
CHOSEN = ENGINES[1:]
Engine = Literal["auto", "local", "spark"]


def require_engine(engine: str, known: tuple[str, ...] = ENGINES) -> None:
    """Refuse an engine that there is not; a misspelt one would otherwise be this process."""
    if engine not in known:
        raise InvalidInput(f"there is no engine {engine!r}: use {', '.join(known[:-1])} or {known[-1]}.")


def require_spark(what: str) -> None:
    """`SparkUnavailable` when pyspark is not installed. `what` begins the message."""
    if find_spec("pyspark") is None:
        raise SparkUnavailable(f"{what} runs on Spark, which is not installed: pip install 'omnigraph[spark]'.")
