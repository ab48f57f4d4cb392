"""What a load does with rows that cannot be loaded: fail at the first, or set some of them aside."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class ErrorPolicy:
    """`limit` rows at most are set aside, in a Parquet table at `path`; a limit of 0 fails at the first bad row."""

    limit: int = 0
    path: str | None = None

    @property
    def fails(self) -> bool:
        """Whether the first bad row ends the load."""
        return not self.limit


FAIL = ErrorPolicy()


def quarantine(limit: int, path: str | os.PathLike[str] | None = None) -> ErrorPolicy:
    """Load the good rows. Bad ones, `limit` at most, go to a Parquet table at `path`; one more fails the load."""
    return ErrorPolicy(limit, None if path is None else os.fspath(path))
