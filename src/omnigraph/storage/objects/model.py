"""The interface of a control-object store, and the metadata of an object: version tag and listing entry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True)
class ObjectVersion:
    """The version of an object that was read or written; `replace` succeeds only while it is still current.

    On a disk every write makes a new tag. An S3 ETag follows the content: writing the same bytes again is no change.
    """

    e_tag: str | None
    version: str | None = None


@dataclass(frozen=True)
class ObjectInfo:
    """A listing entry. `path` is relative to the root of the graph; `e_tag` is that of its `ObjectVersion`.

    `written_us` is the write time by the clock of the store alone, which no writer can set; differences between two
    objects of one store are durations, whatever the clocks of the machines that wrote them say.
    """

    path: str
    size: int
    modified_us: int
    e_tag: str | None = None
    written_us: int = 0


class Objects(Protocol):
    """Control objects on one kind of store. Every failure is one of the store errors of `omnigraph.errors`."""

    def read(self, path: str) -> tuple[bytes, ObjectVersion]:
        """The bytes and their tag."""

    def write(self, path: str, data: bytes) -> ObjectVersion:
        """Write unconditionally."""

    def create(self, path: str, data: bytes) -> ObjectVersion:
        """Write if the object does not exist."""

    def stage(self, path: str, data: bytes) -> None:
        """Write a file that nothing refers to yet, under a name that is used once."""

    def replace(self, path: str, data: bytes, unchanged: ObjectVersion) -> ObjectVersion:
        """Write if the object still has this tag."""

    def delete(self, path: str) -> None:
        """Delete; a missing object is fine."""

    def delete_all(self, paths: Sequence[str]) -> None:
        """Delete many at once; missing objects are fine."""

    def delete_prefix(self, prefix: str) -> None:
        """Delete everything below a prefix."""

    def list(self, prefix: str) -> Iterable[ObjectInfo]:
        """Everything below a prefix, in any order."""

    def remove_unfinished(self) -> None:
        """Delete what killed writes have left behind and no listing shows."""

    def info(self, path: str) -> ObjectInfo:
        """The listing entry of one object."""

    def is_object(self, path: str) -> bool:
        """Whether an object has exactly this name."""

    def has_any(self, prefix: str) -> bool:
        """Whether anything is below a prefix."""
