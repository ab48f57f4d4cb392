"""What each process of a storm writes down about its operations, before and after each, on the disk at once.

A process may be killed at any moment: an operation that was begun and never ended may have happened or not.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Literal

from omnigraph.errors import CommitFailed, CommitOutcomeUnknown, OmniGraphError, StoreUnavailable, VersionReclaimed

if TYPE_CHECKING:
    from pathlib import Path

# `refused`: somebody would have to come and look. `inner`: nothing that a caller can make sense of.
End = Literal["done", "not done", "unknown", "verdict", "refused", "inner"]
REFUSALS = ("CommitRejected", "RecoveryRequired")


@dataclass(frozen=True)
class Entry:
    """One operation: `key` is the actor of its commit, `what` its kind, `told` its arguments."""

    key: str
    what: str
    told: dict[str, Any]
    end: End = "unknown"
    error: str = ""


class Diary:
    """The diary of one process."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def begin(self, key: str, what: str, **told: object) -> None:
        self._write({"key": key, "what": what, "told": told})

    def end(self, key: str, end: End, error: str = "") -> None:
        self._write({"key": key, "end": end, "error": error})

    def _write(self, line: dict[str, object]) -> None:
        self._file.write(json.dumps(line).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def end_of(error: BaseException) -> End:
    """What an exception means for whoever made the call."""
    if not isinstance(error, OmniGraphError) or type(error).__name__ in ("StoreError", "ObjectExists", "ObjectChanged"):
        return "inner"
    if type(error).__name__ in REFUSALS or isinstance(error, VersionReclaimed):
        return "refused"
    if isinstance(error, CommitOutcomeUnknown):
        return "unknown"
    if isinstance(error, CommitFailed | StoreUnavailable) or error.retryable:
        return "not done"
    return "verdict"


@dataclass
class Diaries:
    """All that the processes of a storm have written down, in the order of each."""

    entries: list[Entry] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Path) -> Diaries:
        return cls([entry for file in sorted(folder.glob("*.diary")) for entry in _read(file)])

    def of(self, what: str) -> list[Entry]:
        return [each for each in self.entries if each.what == what]


def _read(file: Path) -> list[Entry]:
    found: dict[str, Entry] = {}
    for line in file.read_bytes().splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break  # killed while it wrote
        fields = json.loads(line)
        key = fields["key"]
        if "what" in fields:
            found[key] = Entry(key, fields["what"], fields["told"])
        else:
            begun = found[key]
            found[key] = Entry(key, begun.what, begun.told, fields["end"], fields["error"])
    return list(found.values())
