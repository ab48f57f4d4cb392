"""What an operation wants a table to become, before anything is staged: whole rows to put, ids to remove."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.store.places import Places


@dataclass(frozen=True)
class TableChanges:
    """The net change to one table.

    `puts` has every column of the table and no id twice; None when no row is put. A row to put replaces the committed
    one of the same id. `deletes` and the ids of `puts` have nothing in common. `overwrite` means that the puts become
    the whole content. `only_new`: a put whose id is committed already is an error, not an upsert; `new_ids` says so of
    some of the puts. `places`: where the rows lie that are put or removed and are committed, when that is known.
    """

    table_key: str
    puts: pa.Table | None = None
    deletes: frozenset[str] = field(default_factory=frozenset)
    overwrite: bool = False
    only_new: bool = False
    new_ids: frozenset[str] = field(default_factory=frozenset)
    places: Places | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing would change."""
        return not (self.overwrite or self.deletes or (self.puts is not None and self.puts.num_rows))
