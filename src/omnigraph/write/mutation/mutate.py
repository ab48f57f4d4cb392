"""A checked mutation as an operation of the commit protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.language.query.checked import Insert, Upsert
from omnigraph.write.commit import WriteSet
from omnigraph.write.constraints import validate
from omnigraph.write.mutation.statements import Affected, Executor
from omnigraph.write.pending import PendingWrites
from omnigraph.write.stage import writes_of

if TYPE_CHECKING:
    from omnigraph.language.query.checked import CheckedMutation
    from omnigraph.language.schema.catalog import Catalog
    from omnigraph.world import World
    from omnigraph.write.mutation.constants import Request
    from omnigraph.write.view import View


@dataclass
class Mutation:
    """Prepares a mutation from a view; `affected` tells what the last preparation would change."""

    catalog: Catalog
    checked: CheckedMutation
    request: Request
    world: World
    affected: Affected

    @property
    def is_repeatable(self) -> bool:
        """Whether it may be computed again from a newer state: inserts and upserts may, updates and deletes not."""
        return all(isinstance(each, Insert | Upsert) for each in self.checked.statements)

    def prepare(self, view: View) -> WriteSet | None:
        """Carry out the statements on pending writes, validate the whole once, and say what to stage."""
        self.affected = Affected()
        pending = PendingWrites(view, self.catalog)
        executor = Executor(self.catalog, pending, self.request, self.world, self.affected)
        for statement in self.checked.statements:
            executor.run(statement)
        changes = {key: change for key, change in pending.changes().items() if not change.is_empty}
        if not changes:
            return None
        validate(self.catalog, view, changes)
        return WriteSet(writes_of(view, changes))
