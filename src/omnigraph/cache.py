"""`ReadCache`: the in-memory cache of reads, for columns, adjacency and text indexes of pinned table versions.

A pinned table version never changes, so no entry is ever stale. Eviction is least recently used, by bytes. The next
version of a table is mostly the same, and is derived from the version used last. Only a few versions of one object are
cached, not all that fit: the next one to be built then reuses freed memory, and getting new memory from the system
takes longer than filling it.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

Kept = TypeVar("Kept")
DEFAULT_BYTES = 2 * 1024**3
# One lookup takes about as long as reading and sorting this many rows.
ROWS_PER_LOOKUP = 30_000
_REMEMBERED = 10_000
# The number of objects whose versions are tracked; each tracked version holds a table open.
_FAMILIES = 1_000
_VERSIONS = 3
# The same as the number of checked queries that an open graph caches.
_NUMBERED = 256


@dataclass(slots=True)
class _Entry:
    """A cached value, its size, and when it was last used."""

    value: Any
    size: int
    used: int


class ReadCache:
    """An LRU cache limited by bytes. Safe to use from several threads."""

    def __init__(self, limit: int = DEFAULT_BYTES) -> None:
        self.limit = limit
        self.size = 0
        self.builds: dict[str, int] = {}
        self._asked: OrderedDict[Hashable, int] = OrderedDict()
        self._kept: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._families: OrderedDict[Hashable, dict[Hashable, object]] = OrderedDict()
        self._uses = itertools.count()
        self._numbers: OrderedDict[int, tuple[object, int]] = OrderedDict()
        self._counter = itertools.count()
        self._lock = threading.Lock()

    def number_of(self, thing: object) -> int:
        """A number that stands for one object in keys, so that large objects need not be compared.

        The object is referenced, so that its `id` is not reused; after eviction it may get another number.
        """
        with self._lock:
            found = self._numbers.get(id(thing)) or (thing, next(self._counter))
            self._numbers[id(thing)] = found
            self._numbers.move_to_end(id(thing))
            if len(self._numbers) > _NUMBERED:
                self._numbers.popitem(last=False)
            return found[1]

    def find(self, key: Hashable) -> object | None:
        """The cached value, or None."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            found.used = next(self._uses)
            return cast("object", found.value)

    def get(self, kind: str, key: Hashable, build: Callable[[], Kept], size: Callable[[Kept], int]) -> Kept:
        """The value of a key, built on a miss. `kind` is the name under which `builds` counts it."""
        found = self.find((kind, key))
        if found is not None:
            return cast("Kept", found)
        made = build()
        self.keep((kind, key), made, size(made))
        with self._lock:
            self.builds[kind] = self.builds.get(kind, 0) + 1
        return made

    def keep(self, key: Hashable, value: object, size: int) -> None:
        """Cache a value. A value larger than the limit is not cached."""
        if size > self.limit:
            return
        with self._lock:
            self._drop(key)
            self._kept[key] = _Entry(value, size, next(self._uses))
            self.size += size
            while self.size > self.limit:
                self._drop(next(iter(self._kept)))

    def add_version(self, family: Hashable, key: Hashable, state: object) -> None:
        """Register a cached key as one version of `family`, together with the table state it was built from."""
        with self._lock:
            if key not in self._kept:
                return
            versions = {each: of for each, of in self._families.get(family, {}).items() if each in self._kept}
            versions[key] = state
            if len(versions) > _VERSIONS:
                oldest = min(versions, key=lambda each: self._kept[each].used)
                self._drop(oldest)
                del versions[oldest]
            self._families[family] = versions
            self._families.move_to_end(family)
            if len(self._families) > _FAMILIES:
                self._families.popitem(last=False)

    def latest(self, family: Hashable) -> object | None:
        """The table state of the most recently used version of a family."""
        with self._lock:
            kept = [each for each in self._families.get(family, {}) if each in self._kept]
            return self._families[family][max(kept, key=lambda each: self._kept[each].used)] if kept else None

    def is_worth_keeping(self, key: Hashable, *, rows: int, size: int) -> bool:
        """Whether lookups in a table of `rows` rows have by now cost as much as reading it whole.

        Each call counts as one more lookup. An entry that would fill much of the cache is never worth it.
        """
        with self._lock:
            self._asked[key] = self._asked.pop(key, 0) + 1
            if len(self._asked) > _REMEMBERED:
                self._asked.popitem(last=False)
            return self._asked[key] * ROWS_PER_LOOKUP >= rows and size * 8 <= self.limit

    def clear(self) -> None:
        """Evict everything."""
        with self._lock:
            self._kept.clear()
            self._families.clear()
            self.size = 0

    def _drop(self, key: Hashable) -> None:
        if key in self._kept:
            self.size -= self._kept.pop(key).size


_caches: WeakKeyDictionary[object, ReadCache] = WeakKeyDictionary()
_lock = threading.Lock()


def cache_of(tables: object) -> ReadCache:
    """The cache of an open graph's tables; it lives as long as they do."""
    with _lock:
        if tables not in _caches:
            _caches[tables] = ReadCache()
        return _caches[tables]
