"""Deletion vectors: those that Lance wrote are read, those written here Lance reads, and none is read twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance import LanceOperation, Transaction

from omnigraph.cache import ByteCache
from omnigraph.counters import counting
from omnigraph.storage.lance.deletion_vectors import DeletionVectors
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.tables.staging import Staged, commit_staged
from omnigraph.storage.tables.table import Table, TableStore
from omnigraph.world import REAL
from seeded_world import SeededWorld

if TYPE_CHECKING:
    from pathlib import Path

    from lance import FragmentMetadata

ROWS = 20_000


@pytest.fixture
def tables(tmp_path: Path) -> TableStore:
    """A table of two fragments of 10,000 rows, which are numbered."""
    lance.write_dataset(
        pa.table({"n": pa.array(range(ROWS), pa.int64())}), tmp_path / "t", enable_stable_row_ids=True,
        data_storage_version="2.2", max_rows_per_file=10_000,
    )  # fmt: skip
    return TableStore(parse_location(tmp_path, REAL), REAL)


def _fragments(table: Table) -> list[FragmentMetadata]:
    return [each.metadata for each in table.handle.get_fragments()]


def _removed(tables: TableStore, table: Table) -> list[int]:
    lists = tables.deletion_vectors.of([(table, each) for each in _fragments(table)])
    return [10_000 * at + int(each) for at, some in enumerate(lists) for each in some]


@pytest.mark.parametrize(("predicate", "kind"), [("n % 1000 = 3", "array"), ("n % 10000 < 6000", "bitmap")])
@pytest.mark.parametrize("branch", [None, "side"])
def test_lists_of_lance_are_read_once(tables: TableStore, predicate: str, kind: str, branch: str | None) -> None:
    main = tables.open_newest("t").handle
    main.delete(predicate)
    if branch is not None:
        main.create_branch(branch)
    table = tables.open_newest("t", branch)
    gone = sorted(set(range(ROWS)) - set(table.read(["n"]).column("n").to_pylist()))
    assert {each.deletion_file.file_type for each in _fragments(table)} == {kind}
    with counting() as counts:
        assert _removed(tables, table) == gone
        assert (counts.object_reads, counts.table_scans) == (2, 0)
        assert _removed(tables, table) == gone
    assert counts.object_reads == 2


@pytest.mark.parametrize("branch", [None, "side"])
def test_lists_are_written_as_lance_reads_them(tables: TableStore, branch: str | None) -> None:
    if branch is not None:
        tables.open_newest("t").handle.create_branch(branch)
    table, gone = tables.open_newest("t", branch), set[int]()
    for step in (np.array([3, 77, 9_999]), np.arange(100, 6_000), np.array([0])):
        fragments = _fragments(table)
        with counting() as counts:
            changed = tables.deletion_vectors.add(table, [(fragments[1], step.astype(np.uint32))])
        assert (counts.object_reads, counts.object_writes) == (0, 1)
        operation = LanceOperation.Delete([each for each in changed if each is not None], [], "true")
        table = commit_staged(Staged(table, "delete", Transaction(table.version, operation))).table
        gone |= {10_000 + int(each) for each in step}
        table.handle.validate()
        assert set(table.read(["n"]).column("n").to_pylist()) == set(range(ROWS)) - gone
    assert _removed(TableStore(tables.location, REAL), table) == sorted(gone)


def test_what_was_asked_for_long_ago_is_forgotten(tables: TableStore) -> None:
    tables.open_newest("t").handle.delete("n % 1000 = 3")
    table, few = tables.open_newest("t"), DeletionVectors(tables.objects, REAL, cache=ByteCache(40))
    first, second = _fragments(table)
    with counting() as counts:
        for fragment in (first, first, second, second, first):
            assert few.of([(table, fragment)])[0].tolist() == list(range(3, 10_000, 1_000))
    assert counts.object_reads == 3


def test_a_fragment_of_which_nothing_is_left_has_no_list(tables: TableStore) -> None:
    table = tables.open_newest("t")
    whole = (_fragments(table)[0], np.arange(10_000, dtype=np.uint32))
    with counting() as counts:
        assert tables.deletion_vectors.add(table, [whole]) == [None]
    assert counts.object_writes == 0


def test_a_row_that_is_not_there_is_not_removed_again(tables: TableStore) -> None:
    tables.open_newest("t").handle.delete("n = 5")
    table = tables.open_newest("t")
    with pytest.raises(AssertionError, match="only rows that the fragment has are deleted"):
        tables.deletion_vectors.add(table, [(_fragments(table)[0], np.array([5], np.uint32))])


def test_a_list_that_lies_elsewhere_is_told_by_the_rows_that_are_left(tables: TableStore) -> None:
    tables.open_newest("t").handle.delete("n = 5")
    elsewhere = Table(tables.open_newest("t").handle, path="not/here", branch=None)
    with counting() as counts:
        assert _removed(tables, elsewhere) == [5]
    assert counts.table_scans == 1


def test_the_names_of_deletion_files_come_from_the_given_world(tables: TableStore) -> None:
    def drawn() -> int:
        store = TableStore(tables.location, SeededWorld(seed=7))
        table = store.open_newest("t")
        (fragment,) = store.deletion_vectors.add(table, [(table.fragment(0), np.array([3], np.uint32))])
        assert fragment is not None
        return int(fragment.deletion_file.id)

    assert drawn() == drawn()
