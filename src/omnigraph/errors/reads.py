"""Reads, vectors and engines that did not come to their end."""

from __future__ import annotations

from omnigraph.errors.root import OmniGraphError


class QueryStopped(OmniGraphError):
    """A read that did not come to its end; nothing was changed."""

    code = "query_stopped"


class QueryTimedOut(QueryStopped):
    """The query exceeded its timeout."""

    code = "query_timed_out"

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the query took longer than {seconds:g} s: narrow it, or allow more time.")
        self.seconds = seconds


class QueryCancelled(QueryStopped):
    """The query was cancelled."""

    code = "query_cancelled"

    def __init__(self) -> None:
        super().__init__("the query was cancelled.")


class QueryTooLarge(QueryStopped):
    """The query needs more memory than it may use, or counts more than 64 bits can hold."""

    code = "query_too_large"


class HopCapReached(QueryStopped):
    """A traversal without an upper bound would have to go on beyond the cap."""

    code = "hop_cap_reached"

    def __init__(self, edge: str, cap: int) -> None:
        super().__init__(
            f"following {edge} did not end within {cap} hops: write an upper bound, {{1,{2 * cap}}}, to go further."
        )
        self.edge = edge
        self.cap = cap


class EmbeddingFailed(OmniGraphError):
    """The embedding provider is not set up, did not answer, or gave something that is no vector of the right length."""

    code = "embedding_failed"

    def __init__(self, message: str, *, provider: str) -> None:
        super().__init__(message)
        self.provider = provider


class SparkUnavailable(OmniGraphError):
    """Spark, or a Java that it runs on, is not there or did not start."""

    code = "spark_unavailable"
