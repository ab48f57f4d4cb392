"""Where Lance does not do what its published transaction specification says: each deviation by name.

A test here turns red when Lance starts to follow its specification: then the name of the test says what changed,
and what OmniGraph built on the old behaviour must be looked at before upgrading.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, Transaction

from conformance.conflict_matrix import (
    COMMITS,
    HERE,
    RETRYABLE,
    Pair,
    StagedOperations,
    changed,
    commit_outcome,
    differing_cells,
    read_matrix,
)
from conformance.conflict_operations import FIRST, delete
from conformance.tables import six_fragments

if TYPE_CHECKING:
    from pathlib import Path

RECORDED = read_matrix("matrix.txt")
NOT_OVERWRITE = tuple(name for name in FIRST if name != "Overwrite")
UPDATES = ("Update same row", "Update same fragment", "Update other fragment")
REPLACEMENTS = ("ReplaceData same column", "ReplaceData other column", "ReplaceData fragment 5")
FULL_INDEXES = ("CreateIndex same name", "CreateIndex other column", "CreateIndex same column")
SCHEMA_METADATA = ("SchemaMeta same key", "SchemaMeta other key")


@dataclass(frozen=True)
class Deviation:
    """One departure: its name in docs/lance-behaviour.md, and the cells of the matrix that show it."""

    name: str
    firsts: tuple[str, ...]
    thens: tuple[str, ...]

    def pairs(self) -> set[Pair]:
        """All (first, second) cells."""
        return set(product(self.firsts, self.thens))


DEVIATIONS = [
    Deviation(
        "staged changes to other rows of one fragment conflict instead of rebasing",
        ("Delete", "Update", "UpdateColumn"),
        ("Delete same fragment", "Update same fragment"),
    ),
    Deviation("an append is stopped by a merge that may change nullability", ("Merge",), ("Append",)),
    Deviation(
        "appends, updates and data replacements are stopped by a project that may change nullability",
        ("Project",),
        ("Append", *UPDATES, *REPLACEMENTS),
    ),
    Deviation(
        "a project that may change nullability is stopped by appends, updates and data replacements",
        ("Append", "Update", "UpdateColumn", "ReplaceData"),
        ("Project",),
    ),
    Deviation("a second index of the same name is refused", ("CreateIndex",), ("CreateIndex same name",)),
    Deviation("an index build is stopped by a rewrite although row ids are stable", ("Rewrite",), FULL_INDEXES),
    Deviation(
        "a rewrite is stopped by an index build although row ids are stable",
        ("CreateIndex",),
        ("Rewrite fragments 0 1", "Rewrite fragments 4 5"),
    ),
    Deviation(
        "an index build is stopped by a data replacement in fragments it does not cover",
        ("ReplaceData",),
        ("CreateIndex fragment 5 only",),
    ),
    Deviation("a merge is stopped by a schema metadata update", ("SchemaMeta",), ("Merge", "MergeKeep")),
    Deviation("a schema metadata update is stopped by a merge", ("Merge", "MergeKeep"), SCHEMA_METADATA),
    Deviation("a config update passes an overwrite", ("Overwrite",), ("Config same key", "Config other key")),
    Deviation("a schema metadata update is stopped by a restore", ("Restore",), SCHEMA_METADATA),
    Deviation("a restore is stopped by a schema metadata update", ("SchemaMeta",), ("Restore",)),
    Deviation(
        "two schema metadata updates conflict whatever their keys are", ("SchemaMeta",), ("SchemaMeta other key",)
    ),
    Deviation(
        "a data replacement in a dropped column is incompatible", ("ProjectKeep",), ("ReplaceData other column",)
    ),
    Deviation(
        "a data replacement passes a column update of another column of the fragment",
        ("UpdateColumn",),
        ("ReplaceData other column",),
    ),
    Deviation("an overwrite without retries is stopped by every commit", NOT_OVERWRITE, ("Overwrite",)),
]


@pytest.mark.parametrize("deviation", DEVIATIONS, ids=lambda d: d.name)
def test_lance_still_deviates(deviation: Deviation, staged_operations: StagedOperations, tmp_path: Path) -> None:
    for first, then in sorted(deviation.pairs()):
        now = staged_operations.outcome(first, then, scratch=tmp_path)
        assert now == RECORDED[first, then], f"{deviation.name}: " + changed(
            first, then, recorded=RECORDED[first, then], now=now
        )


def test_every_cell_that_differs_from_the_specification_belongs_to_one_named_deviation() -> None:
    named = [pair for deviation in DEVIATIONS for pair in deviation.pairs()]
    assert len(named) == len(set(named))
    assert set(named) == set(differing_cells())


def test_every_deviation_is_named_in_the_documentation() -> None:
    documented = (HERE.parent.parent / "docs" / "lance-behaviour.md").read_text().lower()
    assert [d.name for d in DEVIATIONS if d.name.lower() not in documented] == []


def test_a_merge_that_changes_one_fragment_stops_a_delete_in_another(tmp_path: Path) -> None:
    table = six_fragments(tmp_path / "t")
    staged_delete = delete(table, key=57)
    LanceDataset.commit(table, _merge_into_fragment_zero(table), max_retries=0)
    now = commit_outcome(table.uri, staged_delete)
    assert now == RETRYABLE, changed("Merge of fragment 0", "Delete in fragment 5", recorded=RETRYABLE, now=now)


def _merge_into_fragment_zero(table: LanceDataset) -> Transaction:
    def constant(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict({"c1": [0] * batch.num_rows})

    first, *others = table.get_fragments()
    changed_fragment, schema = first.merge_columns(constant, ["id"])
    fragments = [changed_fragment, *(f.metadata for f in others)]
    return Transaction(table.version, LanceOperation.Merge(fragments, schema, True))


def test_a_table_metadata_update_passes_an_overwrite_and_a_restore(tmp_path: Path) -> None:
    for first in ("Overwrite", "Restore"):
        table = six_fragments(tmp_path / first)
        updates = LanceOperation.UpdateMap({"k": "v"})
        staged = Transaction(table.version, LanceOperation.UpdateConfig(table_metadata_updates=updates))
        LanceDataset.commit(table, FIRST[first](table), max_retries=0)
        now = commit_outcome(table.uri, staged)
        assert now == COMMITS, changed(first, "table metadata update", recorded=COMMITS, now=now)


def test_the_committing_calls_rebase_on_other_rows_of_the_fragment_as_specified(tmp_path: Path) -> None:
    uri = str(six_fragments(tmp_path / "t").uri)
    early, late = lance.dataset(uri), lance.dataset(uri)
    early.delete("id = 3", conflict_retries=0)
    late.delete("id = 7", conflict_retries=0)
    assert lance.dataset(uri).count_rows("id in (3, 7)") == 0


def test_an_index_on_a_dropped_column_is_accepted_and_left_dangling(tmp_path: Path) -> None:
    table = six_fragments(tmp_path / "t")
    index = table.create_index_uncommitted("w", "BTREE", name="n", fragment_ids=[0, 1, 2, 3, 4, 5])
    staged = Transaction(table.version, LanceOperation.CreateIndex([index], []))
    lance.dataset(table.uri).drop_columns(["w"])
    after = LanceDataset.commit(table, staged, max_retries=0)
    assert "w" not in after.schema.names
    assert [i.name for i in after.describe_indices()] == ["n"]
