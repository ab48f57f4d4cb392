"""What is known of a control object without its bytes, and what a place that keeps such objects can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True)
class ObjectVersion:
    """The state in which an object was read or left; `replace` succeeds only while it is still in that state.

    On a disk every write makes a new tag. An S3 ETag follows the content: writing the same bytes again is no change.
    """

    e_tag: str | None
    version: str | None = None


@dataclass(frozen=True)
class ObjectInfo:
    """One line of a listing. `path` is relative to the root of the graph; `e_tag` is that of its `ObjectVersion`.

    `written_us` is when it was written by the clock of the store alone, which no writer can set; differences between
    two objects of one store are lengths of time, whatever the clocks of the machines that wrote them say.
    """

    path: str
    size: int
    modified_us: int
    e_tag: str | None = None
    written_us: int = 0


class Objects(Protocol):
    """Control objects on one medium. Every failure is one of the store errors of `omnigraph.errors`."""

    def read(self, path: str) -> tuple[bytes, ObjectVersion]:
        """The bytes and their tag."""

    def write(self, path: str, data: bytes) -> ObjectVersion:
        """Write, whatever is there."""

    def create(self, path: str, data: bytes) -> ObjectVersion:
        """Write if nothing is there."""

    def stage(self, path: str, data: bytes) -> None:
        """Write what nothing refers to yet, under a name that is used once."""

    def replace(self, path: str, data: bytes, unchanged: ObjectVersion) -> ObjectVersion:
        """Write if what is there still has this tag."""

    def delete(self, path: str) -> None:
        """Remove; nothing there is fine."""

    def delete_all(self, paths: Sequence[str]) -> None:
        """Remove many at once; nothing there is fine."""

    def delete_prefix(self, prefix: str) -> None:
        """Remove everything below a prefix."""

    def list(self, prefix: str) -> Iterable[ObjectInfo]:
        """Everything below a prefix, in any order."""

    def remove_unfinished(self) -> None:
        """Remove what killed writes have left and no listing shows."""

    def info(self, path: str) -> ObjectInfo:
        """What a listing would say of one object."""

    def is_object(self, path: str) -> bool:
        """Whether an object has this very name."""

    def has_any(self, prefix: str) -> bool:
        """Whether anything is below a prefix."""
