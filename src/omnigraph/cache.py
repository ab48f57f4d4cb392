"""What reads keep in memory between them: columns, adjacency and text indexes of pinned tables.

A pinned version of one table never changes, so nothing here is ever stale. What was not used for longest goes first.
The next version is mostly the same, and is made from the one used last. Of one thing a few versions are kept, not all
that fit: what is made next finds memory that is in use already, and new memory takes longer to get than to fill.
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
# One lookup takes about as long as reading and sorting so many rows.
ROWS_PER_LOOKUP = 30_000
_REMEMBERED = 10_000
# Of how many things versions are told apart; each of those holds a table open.
_FAMILIES = 1_000
_VERSIONS = 3
# As many as an open graph keeps of its checked queries.
_NUMBERED = 256


@dataclass(slots=True)
class _Entry:
    """Something kept, how large it is, and when it was used last."""

    value: Any
    size: int
    used: int


class ReadCache:
    """Values by key, with their sizes, up to a number of bytes. Safe to use from several threads."""

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
        """A number that stands for one object in keys, so that large ones need not be compared.

        The object is held, so that no other takes its place in memory; long afterwards it may get another number.
        """
        with self._lock:
            found = self._numbers.get(id(thing)) or (thing, next(self._counter))
            self._numbers[id(thing)] = found
            self._numbers.move_to_end(id(thing))
            if len(self._numbers) > _NUMBERED:
                self._numbers.popitem(last=False)
            return found[1]

    def find(self, key: Hashable) -> object | None:
        """The value, if it is there."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            found.used = next(self._uses)
            return cast("object", found.value)

    def get(self, kind: str, key: Hashable, build: Callable[[], Kept], size: Callable[[Kept], int]) -> Kept:
        """The value of a key, built when it is not there. `kind` only names what is counted in `builds`."""
        found = self.find((kind, key))
        if found is not None:
            return cast("Kept", found)
        made = build()
        self.keep((kind, key), made, size(made))
        with self._lock:
            self.builds[kind] = self.builds.get(kind, 0) + 1
        return made

    def keep(self, key: Hashable, value: object, size: int) -> None:
        """Keep a value. One that is larger than everything allowed is not kept at all."""
        if size > self.limit:
            return
        with self._lock:
            self._drop(key)
            self._kept[key] = _Entry(value, size, next(self._uses))
            self.size += size
            while self.size > self.limit:
                self._drop(next(iter(self._kept)))

    def add_version(self, family: Hashable, key: Hashable, state: object) -> None:
        """Say that what is kept under a key is one version of something, and of which state of its tables."""
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
        """The state of the version that was used last."""
        with self._lock:
            kept = [each for each in self._families.get(family, {}) if each in self._kept]
            return self._families[family][max(kept, key=lambda each: self._kept[each].used)] if kept else None

    def is_worth_keeping(self, key: Hashable, *, rows: int, size: int) -> bool:
        """Whether lookups in a table of so many rows have by now cost as much as reading it whole.

        Each call is one lookup more. What would fill much of the cache is never worth it.
        """
        with self._lock:
            self._asked[key] = self._asked.pop(key, 0) + 1
            if len(self._asked) > _REMEMBERED:
                self._asked.popitem(last=False)
            return self._asked[key] * ROWS_PER_LOOKUP >= rows and size * 8 <= self.limit

    def clear(self) -> None:
        """Forget everything."""
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
    """The cache that belongs to an open graph's tables, and goes with them."""
    with _lock:
        if tables not in _caches:
            _caches[tables] = ReadCache()
        return _caches[tables]
