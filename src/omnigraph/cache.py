"""The byte cache of the process, and `ReadCache`, the share of it that reads use.

All open graphs of a process have one budget: columns and adjacency of reads, recent rows of writers, deletion vectors.
Each user has a `CacheShare` with its own keys. When the budget is exceeded, the entry that was not used for longest is
evicted, whoever's it is. What is cached belongs to a pinned table version or to a file that never changes, so it is
never stale.

The next version of a table is mostly the same, and is derived from the version used last. Only a few versions of one
object are cached, not all that fit: the next one to be built then reuses freed memory, and getting new memory from the
system takes longer than filling it.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakKeyDictionary, ref

from omnigraph.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

Cached = TypeVar("Cached")
DEFAULT_BYTES = 2 * 1024**3
CACHE_BYTES = "OMNIGRAPH_CACHE_BYTES"
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


class ByteCache:
    """A budget of bytes for several shares. Safe to use from several threads."""

    def __init__(self, limit: int = DEFAULT_BYTES) -> None:
        self.limit = limit
        # Whether a caller chose the limit, so that the environment does not.
        self.given = False
        self.mutex = threading.Lock()
        self.uses = itertools.count()
        self._shares: list[ref[CacheShare]] = []

    def share(self, most: int | None = None) -> CacheShare:
        """A cache with keys of its own, of at most so many bytes of the budget; what it holds is freed with it."""
        made = CacheShare(self, most)
        with self.mutex:
            self._shares = [*(each for each in self._shares if each() is not None), ref(made)]
        return made

    @property
    def size(self) -> int:
        """The bytes of all shares."""
        with self.mutex:
            return sum(each.size for each in self._living())

    def resize(self, limit: int) -> None:
        """Change the budget; what exceeds it is evicted."""
        with self.mutex:
            self.limit = limit
            self.shrink()

    def shrink(self) -> None:
        """Evict what was not used for longest until the budget is kept. The caller holds the lock."""
        shares = [each for each in self._living() if each.entries]
        excess = sum(each.size for each in shares) - self.limit
        while excess > 0:
            oldest = min(shares, key=lambda each: next(iter(each.entries.values())).used)
            excess -= oldest.drop(next(iter(oldest.entries)))
            shares = [each for each in shares if each.entries]

    def _living(self) -> list[CacheShare]:
        return [found for each in self._shares if (found := each()) is not None]


class CacheShare:
    """One user's entries in a `ByteCache`, by keys of its own; the oldest use comes first."""

    def __init__(self, whole: ByteCache, most: int | None) -> None:
        self.whole = whole
        self.most = most
        self.size = 0
        self.entries: OrderedDict[Hashable, _Entry] = OrderedDict()

    def find(self, key: Hashable) -> object | None:
        """The cached value, or None."""
        with self.whole.mutex:
            found = self.entries.get(key)
            if found is None:
                return None
            self.entries.move_to_end(key)
            found.used = next(self.whole.uses)
            return cast("object", found.value)

    def put(self, key: Hashable, value: object, size: int) -> None:
        """Cache a value in place of an earlier one. A value larger than the budget is not cached."""
        with self.whole.mutex:
            self.drop(key)
            most = self.whole.limit if self.most is None else min(self.most, self.whole.limit)
            if size > most:
                return
            self.entries[key] = _Entry(value, size, next(self.whole.uses))
            self.size += size
            while self.size > most:
                self.drop(next(iter(self.entries)))
            self.whole.shrink()

    def forget(self, key: Hashable) -> None:
        """Evict an entry, if it is there."""
        with self.whole.mutex:
            self.drop(key)

    def drop(self, key: Hashable) -> int:
        """Evict an entry, and return its size. The caller holds the lock of the whole."""
        entry = self.entries.pop(key, None)
        freed = 0 if entry is None else entry.size
        self.size -= freed
        return freed


PROCESS = ByteCache()


def set_cache_bytes(cache_bytes: int | None, environ: Mapping[str, str]) -> None:
    """Set the budget of the process: as given, else as the environment has it unless one was given before."""
    if cache_bytes is not None:
        if cache_bytes < 0:
            raise InvalidInput(f"cache_bytes is {cache_bytes}: give a number of bytes, 0 for no cache")
        PROCESS.given = True
        PROCESS.resize(cache_bytes)
    elif (text := environ.get(CACHE_BYTES)) and not PROCESS.given:
        if not (text.isascii() and text.isdigit()):
            raise InvalidInput(f"{CACHE_BYTES} is {text!r}: write a number of bytes, such as {DEFAULT_BYTES}")
        PROCESS.resize(int(text))


class ReadCache:
    """The cache of a graph's reads: a share of the process's, or with a limit of its own a cache by itself."""

    def __init__(self, limit: int | None = None) -> None:
        self._whole = PROCESS if limit is None else ByteCache(limit)
        self._share = self._whole.share()
        self.builds: dict[str, int] = {}
        self._lookups: OrderedDict[Hashable, int] = OrderedDict()
        self._families: OrderedDict[Hashable, dict[Hashable, object]] = OrderedDict()
        self._ids_by_object: OrderedDict[int, tuple[object, int]] = OrderedDict()
        self._counter = itertools.count()
        self._lock = self._whole.mutex

    @property
    def size(self) -> int:
        """The bytes of the entries."""
        return self._share.size

    def number_of(self, thing: object) -> int:
        """A number that stands for one object in keys, so that large objects need not be compared.

        The object is referenced, so that its `id` is not reused; after eviction it may get another number.
        """
        with self._lock:
            found = self._ids_by_object.get(id(thing)) or (thing, next(self._counter))
            self._ids_by_object[id(thing)] = found
            self._ids_by_object.move_to_end(id(thing))
            if len(self._ids_by_object) > _NUMBERED:
                self._ids_by_object.popitem(last=False)
            return found[1]

    def find(self, key: Hashable) -> object | None:
        """The cached value, or None."""
        return self._share.find(key)

    def get(self, kind: str, key: Hashable, build: Callable[[], Cached], size: Callable[[Cached], int]) -> Cached:
        """The value of a key, built on a miss. `kind` is the name under which `builds` counts it."""
        found = self.find((kind, key))
        if found is not None:
            return cast("Cached", found)
        made = build()
        self.put((kind, key), made, size(made))
        with self._lock:
            self.builds[kind] = self.builds.get(kind, 0) + 1
        return made

    def put(self, key: Hashable, value: object, size: int) -> None:
        """Cache a value. A value larger than the budget is not cached."""
        self._share.put(key, value, size)

    def add_version(self, family: Hashable, key: Hashable, state: object) -> None:
        """Register a cached key as one version of `family`, together with the table state it was built from."""
        with self._lock:
            if key not in self._share.entries:
                return
            versions = {each: of for each, of in self._families.get(family, {}).items() if each in self._share.entries}
            versions[key] = state
            if len(versions) > _VERSIONS:
                oldest = min(versions, key=lambda each: self._share.entries[each].used)
                self._share.drop(oldest)
                del versions[oldest]
            self._families[family] = versions
            self._families.move_to_end(family)
            if len(self._families) > _FAMILIES:
                self._families.popitem(last=False)

    def latest(self, family: Hashable) -> object | None:
        """The table state of the most recently used version of a family."""
        with self._lock:
            cached = [each for each in self._families.get(family, {}) if each in self._share.entries]
            return (
                self._families[family][max(cached, key=lambda each: self._share.entries[each].used)] if cached else None
            )

    def is_worth_keeping(self, key: Hashable, *, rows: int, size: int) -> bool:
        """Whether lookups in a table of `rows` rows have by now cost as much as reading it whole.

        Each call counts as one more lookup. An entry that would fill much of the cache is never worth it.
        """
        with self._lock:
            self._lookups[key] = self._lookups.pop(key, 0) + 1
            if len(self._lookups) > _REMEMBERED:
                self._lookups.popitem(last=False)
            return self._lookups[key] * ROWS_PER_LOOKUP >= rows and size * 8 <= self._whole.limit


_caches: WeakKeyDictionary[object, ReadCache] = WeakKeyDictionary()
_lock = threading.Lock()


def cache_of(tables: object) -> ReadCache:
    """The cache of an open graph's tables; it lives as long as they do."""
    with _lock:
        if tables not in _caches:
            _caches[tables] = ReadCache()
        return _caches[tables]
