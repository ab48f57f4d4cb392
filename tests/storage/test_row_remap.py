"""How one state of a table is made from another: the rows that a scan finds, under the numbers that it finds them."""

from __future__ import annotations

import itertools
import shutil
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

from omnigraph.kernels.arrays import one_array
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.tables import version_diff as module
from omnigraph.storage.tables.table import Pin, Table, TableStore
from omnigraph.storage.tables.version_diff import DELETED, NEW, RowRemap, RowRun, row_remap, same_column
from omnigraph.world import REAL

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Three fragments of twenty rows, and then a version for each of several things that can happen to them."""
    lance.write_dataset(_rows(range(60)), tmp_path / "t", data_storage_version="2.2", max_rows_per_file=20)
    _at(tmp_path).delete("v in (3, 4, 25)")
    _at(tmp_path).insert(_rows(range(60, 67)))
    _at(tmp_path).delete("v in (0, 5, 24, 26, 59, 66)")
    _at(tmp_path).update({"w": "'changed'"}, "v in (10, 30)")
    _at(tmp_path).delete("v >= 20 and v < 40")
    return tmp_path


def _at(place: Path) -> lance.LanceDataset:
    return lance.dataset(place / "t")


def _rows(numbers: range) -> pa.Table:
    return pa.table({"v": pa.array(numbers, pa.int64()), "w": [f"w{each}" for each in numbers]})


def _states(place: Path) -> tuple[TableStore, list[Table]]:
    store = TableStore(parse_location(place, REAL), REAL)
    return store, [store.open(Pin("t", version)) for version in range(1, _at(place).version + 1)]


def test_every_state_is_made_from_every_earlier_one(place: Path) -> None:
    store, states = _states(place)
    assert len(states) == 6
    for one, other in itertools.combinations(states, 2):
        moves = row_remap(store, one, other)
        assert moves is not None
        new = other.read(["v", "w"], fragments=moves.fragments)
        for name in ("v", "w"):
            known, wanted = (one_array(each.read([name]).column(name)) for each in (one, other))
            assert moves.carry(known, one_array(new.column(name))).equals(wanted)
        then, now = (each.read(["v"]).column("v").to_numpy() for each in (one, other))
        assert moves.carry_array(then, new.column("v").to_numpy()).tolist() == now.tolist()
        assert (moves.earlier_rows, moves.later_rows) == (len(then), len(now))
        numbers = moves.later_row_numbers()
        assert (now[numbers[numbers != DELETED]] == then[numbers != DELETED]).all()
        rewritten = new.column("v").to_numpy()
        assert set(then[numbers == DELETED].tolist()) == set(then.tolist()) - set(now.tolist()) | (
            set(then.tolist()) & set(rewritten.tolist())
        )


def test_no_state_with_more_rows_of_a_fragment_is_made_from_a_later_one(place: Path) -> None:
    store, (first, second, third, *_) = _states(place)
    assert row_remap(store, second, first) is None
    assert row_remap(store, third, first) is None
    back = row_remap(store, third, second)
    assert back is not None
    assert back.later_row_numbers()[-7:].tolist() == [DELETED] * 7


def test_what_is_mostly_new_or_in_shreds_is_not_worth_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, (first, *_, last) = _states(place)
    monkeypatch.setattr(module, "MOST_RUNS", 3)
    assert row_remap(store, first, last) is None
    monkeypatch.undo()
    _at(place).insert(_rows(range(100, 200)))
    assert row_remap(store, first, store.open_newest("t")) is None


def test_removals_that_were_cleaned_up_are_no_error(place: Path) -> None:
    _, (_, second, *_, last) = _states(place)
    shutil.rmtree(place / "t" / "_deletions")
    assert row_remap(TableStore(parse_location(place, REAL), REAL), second, last) is None


def test_a_column_that_was_dropped_and_added_again_is_another_one(place: Path) -> None:
    table = _at(place)
    before = table.version
    table.drop_columns(["w"])
    table.add_columns(pa.schema([pa.field("w", pa.string())]))
    store = TableStore(parse_location(place, REAL), REAL)
    earlier, later = store.open(Pin("t", before)), store.open_newest("t")
    assert row_remap(store, earlier, later) is not None
    assert not same_column(earlier, later, "w")
    assert same_column(earlier, later, "v")
    assert not same_column(earlier, later, "x")


@pytest.mark.parametrize(
    ("stretches", "earlier", "adds", "same"),
    [
        ([RowRun(0, 5)], 5, True, True),
        ([RowRun(0, 5), RowRun(NEW, 1)], 5, True, False),
        ([RowRun(NEW, 1), RowRun(0, 5)], 5, False, False),
        ([RowRun(0, 4)], 5, False, False),
        ([RowRun(1, 4)], 5, False, False),
        ([RowRun(NEW, 2)], 0, True, False),
        ([], 0, True, True),
        ([], 2, False, False),
    ],
)
def test_what_a_state_adds(stretches: list[RowRun], earlier: int, adds: bool, same: bool) -> None:
    moves = RowRemap(tuple(stretches), (), earlier)
    assert (moves.only_adds, moves.is_same) == (adds, same)


def test_nothing_of_nothing() -> None:
    moves = RowRemap((), (), 2)
    assert moves.carry(pa.array(["a", "b"]), pa.array([], pa.string())).equals(pa.array([], pa.string()))
    assert moves.carry_array(np.array([1, 2]), np.array([], np.int64)).tolist() == []
