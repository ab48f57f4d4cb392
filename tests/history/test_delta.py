"""The rows that differ between two states of a table: exact for any two, and found without reading the rest."""

from __future__ import annotations

import random  # noqa: TID251
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

from omnigraph.counters import counting
from omnigraph.history import delta as delta_module
from omnigraph.history.delta import table_delta
from omnigraph.manifest.snapshot import TableEntry
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.tables import take_rows
from omnigraph.storage.tables.table import TableStore
from omnigraph.world import REAL

if TYPE_CHECKING:
    from pathlib import Path

PATH = "nodes/00000000000000ff"
ROWS = 400
FRAGMENT = 100


class History:
    """A table with random commits on two branches, and what each state holds."""

    def __init__(self, root: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.uri = str(root / PATH)
        self.tables = TableStore(parse_location(root, REAL), REAL)
        self.states: list[tuple[TableEntry, dict[str, int]]] = []
        lance.write_dataset(
            _rows({f"r{n:04d}": n for n in range(ROWS)}), self.uri, mode="create", enable_stable_row_ids=True,
            data_storage_version="2.2", max_rows_per_file=FRAGMENT,
        )  # fmt: skip
        self._note(None)
        for branch in (None, "side"):
            if branch is not None:
                lance.dataset(self.uri).create_branch(branch)
            for step in self.chance.choices([self.upsert, self.upsert, self.remove, self.remove_many, self.compact,
                                             self.restore, self.overwrite], k=8):  # fmt: skip
                step(lance.dataset(self.uri if branch is None else f"{self.uri}/tree/{branch}"))
                self._note(branch)

    def upsert(self, table: Any) -> None:
        ids = {f"r{self.chance.randrange(ROWS * 2):04d}" for _ in range(self.chance.choice([1, 5, 60]))}
        values = {each: self.chance.randrange(3) for each in sorted(ids)}
        table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(_rows(values))

    def remove(self, table: Any) -> None:
        table.delete(f"id = 'r{self.chance.randrange(ROWS):04d}'")

    def remove_many(self, table: Any) -> None:
        table.delete(f"id >= 'r01{self.chance.randrange(5)}0' and id < 'r0180'")

    def compact(self, table: Any) -> None:
        table.optimize.compact_files(target_rows_per_fragment=1_000)

    def restore(self, table: Any) -> None:
        table.checkout_version(self.chance.choice([each["version"] for each in table.versions()])).restore()

    def overwrite(self, table: Any) -> None:
        kept = {name: value for name, value in self.states[-1][1].items() if self.chance.random() < 0.9}
        lance.write_dataset(_rows(kept), table.uri, mode="overwrite", data_storage_version="2.2")

    def _note(self, branch: str | None) -> None:
        table = lance.dataset(self.uri if branch is None else f"{self.uri}/tree/{branch}")
        rows = table.to_table().to_pylist()
        entry = TableEntry("node:T", PATH, table.version, branch, len(rows))
        self.states.append((entry, {row["id"]: row["v"] for row in rows}))


def _rows(values: dict[str, int]) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.string()), "v": pa.array(values.values(), pa.int64())})


def _held(rows: pa.Table) -> dict[Any, Any]:
    return dict(zip(rows.column("id").to_pylist(), rows.column("v").to_pylist(), strict=True))


def _check(history: History) -> None:
    for base, before in history.states:
        for side, after in history.states:
            delta = table_delta(history.tables, base, side)
            changed = {each for each in before if each in after and before[each] != after[each]}
            assert _held(delta.inserted) == {each: after[each] for each in after.keys() - before.keys()}
            assert _held(delta.deleted) == {each: before[each] for each in before.keys() - after.keys()}
            assert _held(delta.updated[0]) == {each: before[each] for each in changed}
            assert _held(delta.updated[1]) == {each: after[each] for each in changed}


@pytest.mark.parametrize("moved_rows", [5_000, 0])
@pytest.mark.parametrize("seed", range(2))
def test_any_two_states_of_a_table(tmp_path: Path, seed: int, moved_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_module, "MOVED_ROWS", moved_rows)
    _check(History(tmp_path, seed))


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [take_rows.AT_ONCE, 10])
def test_many_histories(tmp_path: Path, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(take_rows, "AT_ONCE", at_once)
    for seed in range(10):
        monkeypatch.setattr(delta_module, "MOVED_ROWS", 5_000 * (seed % 2))
        _check(History(tmp_path / str(seed), seed))


@pytest.mark.parametrize("rows", [10_000, 400_000])
def test_a_few_changes_are_found_at_the_same_cost_in_a_table_of_any_size(tmp_path: Path, rows: int) -> None:
    ids = [f"r{each:07d}" for each in range(rows)]
    uri = str(tmp_path / PATH)
    numbers = pa.array(range(rows), pa.int64())
    lance.write_dataset(
        pa.table({"id": ids, "v": numbers}), uri, mode="create", enable_stable_row_ids=True,
        data_storage_version="2.2", max_rows_per_file=100_000,
    )  # fmt: skip
    chosen = [ids[each * (rows // 10)] for each in range(10)]
    upsert = lance.dataset(uri).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    upsert.execute(pa.table({"id": chosen, "v": pa.array([-1] * 10, pa.int64())}))
    tables = TableStore(parse_location(tmp_path, REAL), REAL)
    with counting() as counts:
        delta = table_delta(tables, TableEntry("node:T", PATH, 1, None, 0), TableEntry("node:T", PATH, 2, None, 0))
    assert delta.updated[1].column("id").to_pylist() == chosen
    assert (counts.table_opens, counts.table_scans) == (2, 2)
    assert counts.object_reads <= 4
