"""A job for a process of its own, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# What a child needs of the environment to reach the store that its parent works with.
STORE_SETTINGS = (
    "AWS_ENDPOINT_URL_S3",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_REGION",
    "AWS_ALLOW_HTTP",
)


@dataclass(frozen=True)
class Job:
    """What a child is told."""

    work: str
    arguments: tuple[Any, ...]
    failpoints: str
    environment: dict[str, str]


@dataclass(frozen=True)
class Outcome:
    """How a job ended: with a value, with an error of ours, or by being killed."""

    value: Any = None
    error: Exception | None = None
    killed: bool = False

    @property
    def succeeded(self) -> bool:
        return self.error is None and not self.killed

    def __str__(self) -> str:
        return "killed" if self.killed else f"{type(self.error).__name__}: {self.error}" if self.error else "done"
