"""Collects the result of merging one table: rows to write and ids to remove, on disk, and conflicts and violations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.catalog.rules import type_of, value_rules
from omnigraph.history.merge.conflicts import ConflictList, of_violation
from omnigraph.history.merge.partitioned.hash_partitions import HashPartitions
from omnigraph.kernels.arrays import ID
from omnigraph.transaction.constraints.evaluate import value_violations
from omnigraph.values.row_ids import has_own_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.history.merge.three_way import TableMerge

_IDS = pa.schema([(ID, pa.string())])


@dataclass
class LargeOutcome:
    """One merged table. `broken`: violations of value rules, checked as long as no row is in conflict."""

    table_key: str
    folder: Path
    parts: int
    conflicts: ConflictList = field(default_factory=ConflictList)
    broken: ConflictList = field(default_factory=ConflictList)
    has_foreign_ids: bool = False
    puts: HashPartitions | None = None
    deletes: HashPartitions | None = None

    def add(self, merged: TableMerge, catalog: Catalog, types: Mapping[str, str]) -> None:
        """Add the result of one group of hash partitions."""
        self.conflicts.add(merged.conflicts, merged.more)
        self._put(merged.puts)
        self._delete(merged.deletes)
        if self.conflicts or not merged.puts.num_rows:
            return
        wrong = value_violations(value_rules(catalog, self.table_key), merged.puts)
        self.broken.add(of_violation(each, types) for each in wrong)
        self.has_foreign_ids |= has_foreign_ids(catalog, self.table_key, merged.puts)

    @property
    def put_rows(self) -> int:
        """The number of rows to write."""
        return 0 if self.puts is None else self.puts.row_count

    @property
    def deleted_rows(self) -> int:
        """The number of rows to remove."""
        return 0 if self.deletes is None else self.deletes.row_count

    def ids(self) -> Iterator[pa.Array[Any]]:
        """The ids of all rows to write or remove."""
        for each in (self.puts, self.deletes):
            yield from (batch.column(ID) for batch in (() if each is None else each.batches()))

    def _put(self, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        if self.puts is None:
            self.puts = HashPartitions(self.folder / "puts", rows.schema, self.parts)
        self.puts.add(rows)

    def _delete(self, ids: frozenset[str]) -> None:
        if not ids:
            return
        if self.deletes is None:
            self.deletes = HashPartitions(self.folder / "deletes", _IDS, self.parts)
        self.deletes.add(pa.table({ID: pa.array(sorted(ids), pa.string())}))


def has_foreign_ids(catalog: Catalog, table_key: str, rows: pa.Table) -> bool:
    """Whether a row of a keyed type has an id that its key does not determine."""
    kind = type_of(catalog, table_key)
    return bool(kind.rules.key) and not bool(np.all(has_own_id(kind, rows)))
