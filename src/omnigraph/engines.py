"""The engines that a call can be asked to run on: this process, Spark, or whichever fits."""

from __future__ import annotations

from omnigraph.errors import InvalidInput

ENGINES = ("auto", "local", "spark")
# Where the caller gets something else from Spark, nothing is chosen for them.
CHOSEN = ENGINES[1:]


def require_engine(engine: str, known: tuple[str, ...] = ENGINES) -> None:
    """Refuse an engine that there is not; a misspelt one would otherwise be this process."""
    if engine not in known:
        raise InvalidInput(f"there is no engine {engine!r}: use {', '.join(known[:-1])} or {known[-1]}.")
