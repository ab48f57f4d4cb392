"""A store of control objects that fails when it is told to, before or after it has done what it was asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.errors import StoreUnavailable
from omnigraph.manifest.layout import Storage
from omnigraph.storage.objects.store import ObjectStore

if TYPE_CHECKING:
    from collections.abc import Iterable

    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.storage.objects.model import ObjectInfo, Objects, ObjectVersion


@dataclass
class FaultyObjects:
    """`failing` operations do nothing, `unanswered` ones are done; both raise as a store that gives no answer."""

    inner: Objects
    failing: set[str] = field(default_factory=set)
    unanswered: set[str] = field(default_factory=set)

    def read(self, path: str) -> tuple[bytes, ObjectVersion]:
        self._before("read", path)
        return self.inner.read(path)

    def write(self, path: str, data: bytes) -> ObjectVersion:
        self._before("write", path)
        return self.inner.write(path, data)

    def create(self, path: str, data: bytes) -> ObjectVersion:
        self._before("create", path)
        tag = self.inner.create(path, data)
        self._after("create", path)
        return tag

    def replace(self, path: str, data: bytes, unchanged: ObjectVersion) -> ObjectVersion:
        self._before("replace", path)
        return self.inner.replace(path, data, unchanged)

    def delete(self, path: str) -> None:
        self._before("delete", path)
        self.inner.delete(path)
        self._after("delete", path)

    def delete_prefix(self, prefix: str) -> None:
        self.inner.delete_prefix(prefix)

    def list(self, prefix: str) -> Iterable[ObjectInfo]:
        self._before("list", prefix)
        return self.inner.list(prefix)

    def remove_unfinished(self) -> None:
        self.inner.remove_unfinished()

    def info(self, path: str) -> ObjectInfo:
        self._before("read", path)
        return self.inner.info(path)

    def is_object(self, path: str) -> bool:
        return self.inner.is_object(path)

    def has_any(self, prefix: str) -> bool:
        return self.inner.has_any(prefix)

    def _before(self, what: str, path: str) -> None:
        if what in self.failing:
            raise StoreUnavailable(f"{path}: no answer to {what}", location=path)

    def _after(self, what: str, path: str) -> None:
        if what in self.unanswered:
            raise StoreUnavailable(f"{path}: no answer to {what}", location=path)


def make_faulty(graph: GraphManifest) -> FaultyObjects:
    """Put a store that can fail under an open graph."""
    objects = graph.stores.objects
    faulty = FaultyObjects(objects._objects)
    graph._stores = Storage(graph.stores.tables, ObjectStore(objects.location, faulty))
    return faulty
