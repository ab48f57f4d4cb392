"""A load as an operation of the commit protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.write.commit import WriteSet
from omnigraph.write.constraints import validate
from omnigraph.write.load.load import LoadedRows, prepare_load
from omnigraph.write.stage import writes_of

if TYPE_CHECKING:
    from omnigraph.language.schema.catalog import Catalog
    from omnigraph.world import World
    from omnigraph.write.load.load import Mode
    from omnigraph.write.view import View


@dataclass(frozen=True)
class Load:
    """A source that has been read, to be written in one of the modes."""

    catalog: Catalog
    loaded: LoadedRows
    mode: Mode
    world: World

    @property
    def is_repeatable(self) -> bool:
        """Whether it may be computed again from a newer state; replacing what somebody has just written may not."""
        return self.mode != "overwrite"

    def prepare(self, view: View) -> WriteSet:
        """Validate the rows against a view, and say what to stage. A load without rows is a commit without changes."""
        changes, _ = prepare_load(self.catalog, view, self.loaded, self.mode, self.world)
        validate(self.catalog, view, changes)
        return WriteSet(writes_of(view, changes))
