"""A few rows changed where they lie: the same as Lance's own merge, and found through indexes afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

from omnigraph.errors import InvalidInput
from omnigraph.storage.filters.model import equal, one_of
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.tables.row_rewrite import FEW_ROWS, STABLE_IDS_SPAN, stage_rewrite
from omnigraph.storage.tables.staging import commit_staged
from omnigraph.storage.tables.table import TableStore
from omnigraph.world import REAL
from storage.joined_changes import stage_change

if TYPE_CHECKING:
    from omnigraph.storage.tables.row_rewrite import RowLocations
    from omnigraph.storage.tables.staging import Staged
    from omnigraph.storage.tables.table import Table

ROW_FACTS = ["id", "v", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]


def _rows(**values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.string()), "v": pa.array(values.values(), pa.int64())})


def _stage_placed(
    table: Table, puts: pa.Table | None, deletes: list[str], locations: RowLocations | None = None
) -> Staged:
    tables = TableStore(parse_location(Path(table.handle.uri).parent, REAL), REAL)
    return stage_rewrite(table, puts, deletes, tables=tables, locations=locations)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Thirty rows in three changed_tables, with indexes."""
    made = lance.write_dataset(
        _rows(**{f"r{each:02d}": each for each in range(30)}), tmp_path / "t", enable_stable_row_ids=True,
        data_storage_version="2.2", max_rows_per_file=10,
    )  # fmt: skip
    made.create_scalar_index("id", "BTREE")
    made.create_scalar_index("v", "BTREE")
    return TableStore(parse_location(tmp_path, REAL), REAL).open_newest("t")


def _facts(table: Table) -> list[dict[str, Any]]:
    return sorted(table.read(ROW_FACTS).to_pylist(), key=lambda row: str(row["id"]))


def test_rows_become_what_a_merge_would_make_of_them(table: Table, tmp_path: Path) -> None:
    puts = _rows(new1=-1, r25=-2, r01=-3, new2=-4, r02=-5)
    staged = _stage_placed(table, puts, ["r03", "r20", "not there"])
    assert (staged.inserted, staged.updated, staged.deleted) == (2, 3, 2)
    by_merge = stage_change(table, puts, ["r03", "r20"])
    facts = _facts(commit_staged(staged).table)
    merged = lance.LanceDataset.commit(table.handle, by_merge.transaction, detached=True, max_retries=5)
    expected = sorted(merged.to_table(columns=ROW_FACTS[:2]).to_pylist(), key=lambda row: str(row["id"]))
    assert [{name: row[name] for name in ROW_FACTS[:2]} for row in facts] == expected
    held = {row["id"]: row for row in facts}
    assert (held["r25"]["_rowid"], held["r25"]["_row_created_at_version"]) == (25, 1)
    assert held["r25"]["_row_last_updated_at_version"] == held["new1"]["_row_created_at_version"] == 4
    assert len({row["_rowid"] for row in facts}) == len(facts) == 30


def test_rows_that_lie_far_apart_get_new_ids_and_rows_close_together_keep_theirs(tmp_path: Path) -> None:
    """Lance would look at every row between them."""
    rows = STABLE_IDS_SPAN + 10
    everybody = pa.table({"id": [f"r{each:06d}" for each in range(rows)], "v": pa.array([0] * rows, pa.int64())})
    made = lance.write_dataset(everybody, tmp_path / "t", enable_stable_row_ids=True, data_storage_version="2.2")
    made.create_scalar_index("id", "BTREE")
    table = TableStore(parse_location(tmp_path, REAL), REAL).open_newest("t")
    last = f"r{rows - 1:06d}"
    apart = commit_staged(_stage_placed(table, _rows(r000001=1, **{last: 2}), [])).table
    together = commit_staged(_stage_placed(apart, _rows(r000002=3, r000003=4), [])).table
    facts = {row["id"]: row for row in together.read(ROW_FACTS, one_of("v", [1, 2, 3, 4])).to_pylist()}
    assert {row_id for row_id, row in facts.items() if row["_rowid"] >= rows} == {"r000001", last}
    assert facts["r000002"]["_rowid"] == 2
    assert together.count_rows() == rows
    assert together.read(["v"], one_of("id", ["r000001", last])).column("v").to_pylist() == [1, 2]


def test_many_rows_are_replaced_added_and_removed_as_few_are(tmp_path: Path) -> None:
    """Their places are found by reading all ids; whole changed_tables that go leave no list of removed rows."""
    rows, gone = FEW_ROWS * 2, [f"r{each:06d}" for each in range(0, 500, 2)]
    everybody = pa.table({"id": [f"r{each:06d}" for each in range(rows)], "v": pa.array([0] * rows, pa.int64())})
    lance.write_dataset(
        everybody, tmp_path / "t", enable_stable_row_ids=True, data_storage_version="2.2", max_rows_per_file=10_000
    )
    table = TableStore(parse_location(tmp_path, REAL), REAL).open_newest("t")
    put = [f"r{each:06d}" for each in range(15_000, rows + 3)]
    staged = _stage_placed(table, pa.table({"id": put, "v": pa.array([1] * len(put), pa.int64())}), gone)
    assert (staged.inserted, staged.updated, staged.deleted) == (3, rows - 15_000, 250)
    assert staged.transaction.operation.removed_fragment_ids == [2, 3]
    after = commit_staged(staged).table
    kept = {row["id"]: row for row in after.read(ROW_FACTS).to_pylist()}
    assert len(kept) == after.count_rows() == rows + 3 - 250
    assert all(kept[each]["v"] == 1 and kept[each]["_row_last_updated_at_version"] == 2 for each in put)
    assert kept["r020000"]["_rowid"] == 20_000
    assert kept["r000001"]["v"] == 0
    after.handle.validate()
    emptied = _stage_placed(after, None, sorted(kept))
    assert commit_staged(emptied).table.count_rows() == 0


def test_indexes_tell_the_new_values(table: Table) -> None:
    changed = commit_staged(_stage_placed(table, _rows(r05=500, r06=600), [])).table
    assert changed.read(["id"], equal("v", 500)).column("id").to_pylist() == ["r05"]
    assert changed.read(["id"], equal("v", 5)).num_rows == 0
    again = commit_staged(_stage_placed(changed, _rows(r05=501), ["r06"])).table
    assert again.read(["v"], one_of("id", ["r05", "r06"])).column("v").to_pylist() == [501]
    again.handle.validate()


def test_new_rows_alone_are_an_append_and_removals_alone_a_delete(table: Table) -> None:
    appended = _stage_placed(table, _rows(new=1), [])
    assert (appended.change, type(appended.transaction.operation).__name__) == ("append", "Append")
    removed = _stage_placed(table, None, [f"r{each:02d}" for each in range(10)])
    assert (removed.change, removed.deleted) == ("delete", 10)
    assert removed.transaction.operation.deleted_fragment_ids == [0]
    assert commit_staged(removed).table.count_rows() == 20


def test_rows_are_named_once(table: Table) -> None:
    twice = pa.concat_tables([_rows(r01=1), _rows(r01=2)])
    with pytest.raises(InvalidInput, match="repeat the id 'r01'"):
        _stage_placed(table, twice, [])
    with pytest.raises(InvalidInput, match="both writes and removes"):
        _stage_placed(table, _rows(r01=1), ["r01"])
