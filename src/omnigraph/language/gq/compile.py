"""Queries that were read and checked before: asked again, they are neither read nor checked again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.catalog.catalog import Catalog
    from omnigraph.language.ir.query import CheckedMutation, CheckedQuery

_MOST = 256
# Longer texts are files of many queries; they are not worth the memory.
_LONGEST = 20_000


class QueryCache:
    """Checked queries, those used last. Safe to use from several threads."""

    def __init__(self) -> None:
        self._cached: OrderedDict[tuple[str, str | None], tuple[Catalog, CheckedQuery | CheckedMutation]] = (
            OrderedDict()
        )
        self._lock = threading.Lock()

    def checked(self, source: str, name: str | None, catalog: Catalog) -> CheckedQuery | CheckedMutation:
        """The query of this name in a text, or its only one, checked against this very catalog."""
        key = (source, name)
        with self._lock:
            cached = self._cached.get(key)
            if cached is not None and cached[0] is catalog:
                self._cached.move_to_end(key)
                return cached[1]
        from omnigraph.language.gq.check import check_query
        from omnigraph.language.gq.syntax.parse import parse_queries

        made = check_query(parse_queries(source).select(name), catalog)
        if len(source) <= _LONGEST:
            self._store(key, catalog, made)
        return made

    def _store(self, key: tuple[str, str | None], catalog: Catalog, made: CheckedQuery | CheckedMutation) -> None:
        with self._lock:
            self._cached[key] = (catalog, made)
            self._cached.move_to_end(key)
            while len(self._cached) > _MOST:
                self._cached.popitem(last=False)
