"""Rows by their addresses: the same, whichever way they are fetched."""

from __future__ import annotations

import random  # noqa: TID251
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

from omnigraph.counters import counting
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.tables import take_rows as module
from omnigraph.storage.tables.table import TableStore
from omnigraph.storage.tables.take_rows import rows_at
from omnigraph.world import REAL

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.storage.tables.table import Table

COLUMNS = ["id", "v", "_rowid", "_rowaddr"]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Four fragments and what two merges left: rows that were removed, and rows that kept their numbers elsewhere."""
    made = lance.write_dataset(
        _rows(range(12_000), 0), tmp_path / "t", enable_stable_row_ids=True, data_storage_version="2.2",
        max_rows_per_file=3_000,
    )  # fmt: skip
    made.delete("v = 0 and (id < 'r0100' or id >= 'r1150')")
    for step in (7, 11):
        upsert = lance.dataset(tmp_path / "t").merge_insert("id").when_matched_update_all()
        upsert.execute(_rows(range(200, 12_000, step), step))
    return TableStore(parse_location(tmp_path, REAL), REAL).open_newest("t")


def _rows(numbers: range, value: int) -> pa.Table:
    return pa.table({"id": [f"r{each:05d}" for each in numbers], "v": pa.array([value] * len(numbers), pa.int64())})


@pytest.mark.parametrize("asked", [1, 400, 2_000, 9_000])
@pytest.mark.parametrize("dense", [module.DENSE, 0])
@pytest.mark.parametrize("at_once", [module.AT_ONCE, 600])
def test_rows_are_the_ones_that_a_scan_finds(
    table: Table, asked: int, dense: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DENSE", dense)
    monkeypatch.setattr(module, "AT_ONCE", at_once)
    everybody = table.read(COLUMNS)
    chosen = pa.array(sorted(random.Random(asked).sample(range(everybody.num_rows), asked)))
    expected = everybody.take(chosen)
    with counting() as counts:
        found = rows_at(table, COLUMNS, expected.column("_rowaddr").to_numpy())
    assert found.sort_by("_rowaddr").equals(expected.sort_by("_rowaddr"))
    assert counts.table_scans == 1


def test_no_rows_are_asked_for_nowhere(table: Table) -> None:
    with counting() as counts:
        found = rows_at(table, COLUMNS, np.zeros(0, np.uint64))
    assert (found.num_rows, found.column_names, counts.table_scans) == (0, COLUMNS, 0)


def test_a_row_that_was_removed_is_not_there(table: Table) -> None:
    with pytest.raises(AssertionError, match="every requested row exists"):
        rows_at(table, COLUMNS, np.array([5], np.uint64))
