"""`ObjectStore`: the control objects of a graph (schema, sidecars, leases), on a local disk or in a bucket.

Paths are relative to the root of the graph. A prefix matches whole path segments: `a/b` is a prefix of `a/b/c`, not of
`a/bc`. `local.py` and `remote.py` implement each kind of store; this module validates paths and counts operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.counters import count
from omnigraph.errors import InvalidInput
from omnigraph.errors.inputs import require_text
from omnigraph.storage.objects.local import LocalFiles, is_hidden
from omnigraph.storage.objects.model import ObjectInfo, Objects, ObjectVersion
from omnigraph.storage.objects.remote import open_remote_objects

if TYPE_CHECKING:
    import builtins
    from collections.abc import Sequence

    from omnigraph.storage.objects.location import Location
    from omnigraph.world import World


__all__ = ["ObjectInfo", "ObjectStore", "ObjectVersion", "open_control_store"]

AT_ONCE = 1_000


def open_control_store(location: Location, world: World) -> ObjectStore:
    """The control objects of one graph. Makes no request; the location need not exist."""
    if location.is_local:
        return ObjectStore(location, LocalFiles(location.uri, world))
    return ObjectStore(location, open_remote_objects(location, world))


@dataclass(frozen=True)
class ObjectStore:
    """Reads and writes control objects. Safe to use from several threads."""

    location: Location
    _objects: Objects

    def read(self, path: str) -> bytes:
        """The bytes of an object; raises `ObjectNotFound`."""
        return self.read_versioned(path)[0]

    def read_versioned(self, path: str) -> tuple[bytes, ObjectVersion]:
        """The bytes and the tag that `replace` needs; raises `ObjectNotFound`."""
        _check(path)
        count("object_reads", path)
        return self._objects.read(path)

    def write(self, path: str, data: bytes) -> ObjectVersion:
        """Write atomically and unconditionally."""
        _check(path)
        count("object_writes", path)
        return self._objects.write(path, data)

    def create(self, path: str, data: bytes) -> ObjectVersion:
        """Write only if the object does not exist, else `ObjectExists`. Of several concurrent writers, one succeeds."""
        _check(path)
        count("object_writes", path)
        return self._objects.create(path, data)

    def stage(self, path: str, data: bytes) -> None:
        """Write a table file under a unique name, before anything refers to it; not synced, as Lance's own files."""
        _check(path)
        count("object_writes", path)
        self._objects.stage(path, data)

    def replace(self, path: str, data: bytes, unchanged: ObjectVersion) -> ObjectVersion:
        """Write only if the object is still `unchanged`, else `ObjectChanged`. Of several at once, one succeeds."""
        _check(path)
        count("object_writes", path)
        return self._objects.replace(path, data, unchanged)

    def delete(self, path: str) -> None:
        """Delete an object; a missing one is fine."""
        _check(path)
        count("object_deletes", path)
        self._objects.delete(path)

    def delete_all(self, paths: Sequence[str]) -> None:
        """Delete many objects, on S3 a thousand per request; missing ones are fine.

        Only for garbage: a store may refuse to delete an object, and not report it.
        """
        for start in range(0, len(paths), AT_ONCE):
            some = paths[start : start + AT_ONCE]
            for path in some:
                _check(path)
            count("object_deletes", f"{len(some)} below {some[0].rpartition('/')[0]}")
            self._objects.delete_all(some)

    def delete_prefix(self, prefix: str) -> None:
        """Delete every object below a prefix."""
        _check(prefix)
        count("object_deletes", prefix)
        self._objects.delete_prefix(prefix)

    def remove_unfinished(self) -> None:
        """Delete what killed writes have left behind, but nothing of live ones."""
        self._objects.remove_unfinished()

    def list(self, prefix: str = "") -> builtins.list[ObjectInfo]:
        """Every object below a prefix, at any depth, sorted by path. Unfinished writes are not objects."""
        if prefix:
            _check(prefix)
        count("object_lists", prefix)
        return sorted(self._objects.list(prefix), key=lambda each: each.path)

    def list_names(self, prefix: str = "") -> builtins.list[str]:
        """The paths of `list`."""
        return [each.path for each in self.list(prefix)]

    def info(self, path: str) -> ObjectInfo:
        """The listing entry of one object; raises `ObjectNotFound`."""
        _check(path)
        count("object_reads", path)
        return self._objects.info(path)

    def exists(self, path: str) -> bool:
        """Whether an object has this name or this prefix. A denied permission raises; it is not reported as absence."""
        _check(path)
        count("object_reads", path)
        if self._objects.is_object(path):
            return True
        count("object_lists", path)
        return self._objects.has_any(path)


def _check(path: str) -> None:
    """Accept only names that mean the same on every kind of store."""
    require_text("the name of an object", path)
    parts = path.split("/")
    if any(part in {"", ".", ".."} for part in parts) or is_hidden(parts[-1]) or "\0" in path:
        raise InvalidInput(f"{path!r} cannot name a control object: use a relative path without empty or dot parts")
