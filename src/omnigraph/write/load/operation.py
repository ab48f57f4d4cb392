"""A load as an operation of the commit protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.write.commit import WriteSet
from omnigraph.write.constraints import validate
from omnigraph.write.load.load import LoadSummary, prepare_load
from omnigraph.write.stage import writes_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.language.schema.catalog import Catalog
    from omnigraph.world import World
    from omnigraph.write.changes import TableChanges
    from omnigraph.write.load.load import Mode
    from omnigraph.write.view import View


class Load:
    """Reads its source once, however often it is prepared: a stream of records cannot be read twice."""

    def __init__(self, catalog: Catalog, source: object, mode: Mode, world: World, *, strict: bool) -> None:
        self._catalog = catalog
        self._source = source
        self._mode = mode
        self._world = world
        self._strict = strict
        self._changes: Mapping[str, TableChanges] | None = None
        self.summary: LoadSummary | None = None

    @property
    def is_repeatable(self) -> bool:
        """Whether it may be computed again from a newer state; replacing what somebody has just written may not."""
        return self._mode != "overwrite"

    def prepare(self, view: View) -> WriteSet:
        """Validate the rows against a view, and say what to stage. A load without rows is a commit without changes."""
        if self._changes is None:
            self._changes, self.summary = prepare_load(
                self._catalog, view, self._source, self._mode, self._world, strict=self._strict
            )
        for table_key in self._changes:
            view.entry(table_key)
        validate(self._catalog, view, self._changes)
        return WriteSet(writes_of(view, self._changes))
