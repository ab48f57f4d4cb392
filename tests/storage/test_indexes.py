"""Indexes and compaction, staged: the same rows, found the same way, quicker or in fewer fragments."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from lance import LanceOperation, Transaction

from omnigraph.errors import InvalidInput, ObjectExists
from omnigraph.storage.filters.model import equal
from omnigraph.storage.tables.compaction import stage_compaction
from omnigraph.storage.tables.immediate import create_branch
from omnigraph.storage.tables.indexes import IndexSpec, index_names, stage_coverage, stage_indexes, vector_partitions
from omnigraph.storage.tables.staging import commit_staged, stage_append, stage_overwrite
from storage.every_type import PATH, VECTOR, contents, fresh, made, open_store, raw, rows
from storage.joined_changes import stage_delete_ids, stage_upsert

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.storage.tables.staging import Staged
    from omnigraph.storage.tables.table import Table, TableStore

FIELDS: list[pa.Field[Any]] = [
    pa.field("id", pa.utf8(), nullable=False),
    pa.field("rank", pa.int64()),
    pa.field("text", pa.utf8()),
    pa.field("vector", VECTOR),
]
SCHEMA = pa.schema(FIELDS)
SPECS = (
    IndexSpec("id", "btree", "id_idx"),
    IndexSpec("rank", "btree", "rank_idx"),
    IndexSpec("text", "inverted", "text_idx"),
    IndexSpec("vector", "vector", "vector_idx"),
)


def documents(first: int, last: int) -> pa.Table:
    numbers = range(first, last)
    return pa.table(
        {
            "id": [f"doc{each}" for each in numbers],
            "rank": [each % 5 if each % 7 else None for each in numbers],
            "text": [f"word{each} shared" for each in numbers],
            "vector": pa.array([[float(each), 0.0, 0.0, 0.0] if each % 7 else None for each in numbers], VECTOR),
        },
        schema=SCHEMA,
    )


def of_another_release(staged: Staged) -> Staged:
    """The same index as a release of Lance describes it that knew rows by their ids."""
    older = [replace(each, index_version=0) for each in staged.transaction.operation.new_indices]
    return replace(staged, transaction=Transaction(staged.read_version, LanceOperation.CreateIndex(older, [])))


def test_an_index_of_another_release_is_built_anew_where_it_cannot_be_extended(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    table = made(store, documents(0, 10))
    spec = IndexSpec("id", "btree", "id_idx")
    table = commit_staged(of_another_release(stage_indexes(table, [spec]))).table
    table = commit_staged(stage_append(table, documents(10, 20))).table
    staged, names = stage_coverage(table, [spec])
    assert staged is not None
    assert names == ("id_idx",)
    table = commit_staged(staged).table
    covered = [set(each.fragment_ids) for index in table.handle.describe_indices() for each in index.segments]
    assert covered == [set(table.fragment_ids())]
    assert table.read(["id"], equal("id", "doc15")).num_rows == 1


def found_by_text(table: Table, words: str) -> list[str]:
    found = table.handle.scanner(columns=["id", "_score"], full_text_query={"query": words, "columns": ["text"]})
    return sorted(found.to_table().column("id").to_pylist())


def nearest(table: Table, place: float, k: int) -> list[str]:
    asked: dict[str, Any] = {"column": "vector", "q": np.array([place, 0, 0, 0], dtype=np.float32), "k": k}
    return list(table.handle.scanner(columns=["id", "_distance"], nearest=asked).to_table().column("id").to_pylist())


def answers(table: Table) -> dict[str, object]:
    """What readers ask of the indexes; every row must come once."""
    return {
        "by id": {name: table.count_rows(equal("id", name)) for name in ("doc1", "doc5", "doc21", "doc44", "nobody")},
        "by rank": table.count_rows(equal("rank", 3)),
        "by word": [found_by_text(table, f"word{each}") for each in (1, 5, 21, 44)],
        "by shared word": found_by_text(table, "shared"),
        "nearest": nearest(table, 5.2, 3),
        "all by distance": sorted(nearest(table, 5.2, 1000)),
    }


def kinds_of_search(table: Table) -> str:
    return str(table.handle.scanner(filter="id = 'doc5'").explain_plan())


def test_three_kinds_of_index_are_one_commit_and_give_the_answers_of_a_scan(graph_uri: str) -> None:
    store = open_store(graph_uri)
    table = made(store, documents(0, 30))
    staged = stage_indexes(table, SPECS)
    assert index_names(fresh(table, store)) == frozenset()
    landed = commit_staged(staged)
    assert (landed.version, landed.contiguous) == (2, True)
    assert index_names(fresh(table, store)) == {each.name for each in SPECS}
    assert answers(landed.table) == answers(table)
    assert answers(landed.table)["nearest"] == ["doc5", "doc6", "doc4"]
    assert "ScalarIndexQuery" in kinds_of_search(landed.table)
    assert "ScalarIndexQuery" not in kinds_of_search(table)


def test_rows_written_after_an_index_are_found_too(graph_uri: str) -> None:
    table = changed_since_indexed(open_store(graph_uri))
    assert answers(table) == answers(without_indexes(table))
    assert answers(table)["by id"] == {"doc1": 1, "doc5": 1, "doc21": 0, "doc44": 1, "nobody": 0}


def changed_since_indexed(store: TableStore) -> Table:
    """Indexed rows, then rows appended, replaced and removed."""
    table = commit_staged(stage_indexes(made(store, documents(0, 30)), SPECS)).table
    table = commit_staged(stage_append(table, documents(30, 45))).table
    table = commit_staged(stage_upsert(table, documents(4, 6))).table
    staged = stage_delete_ids(table, ["doc21", "doc40"])
    assert staged is not None
    return commit_staged(staged).table


def without_indexes(table: Table) -> Table:
    """The same rows as a table that never had an index."""
    store = open_store(table.handle.uri + "-plain")
    return made(store, table.read())


def ages(table: Table) -> list[tuple[object, ...]]:
    columns = ["id", "rank", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    found = table.handle.scanner(columns=columns).to_table()
    return sorted(zip(*(each.to_pylist() for each in found.columns), strict=True))


def test_compaction_keeps_rows_row_ids_and_row_versions(graph_uri: str) -> None:
    store = open_store(graph_uri)
    table = changed_since_indexed(store)
    before, asked = ages(table), answers(table)
    staged = stage_compaction(table, rows_per_file=1_000)
    assert staged is not None
    assert fresh(table, store).fragment_ids() == table.fragment_ids()
    landed = commit_staged(staged)
    assert landed.contiguous
    assert len(landed.table.fragment_ids()) < len(table.fragment_ids())
    for each in (landed.table, fresh(table, store)):
        assert ages(each) == before
        assert answers(each) == asked


def test_what_is_written_after_a_compaction_joins_its_rows(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    staged = stage_compaction(changed_since_indexed(store), rows_per_file=1_000)
    assert staged is not None
    table = commit_staged(staged).table
    table = commit_staged(stage_append(table, documents(50, 55))).table
    table = commit_staged(stage_upsert(table, documents(3, 8))).table
    assert answers(table) == answers(without_indexes(table))
    numbers = [each[2] for each in ages(table)]
    assert len(numbers) == len(set(numbers))


def test_every_type_survives_a_compaction(graph_uri: str) -> None:
    table = made(open_store(graph_uri), rows("a", "b", "c"))
    for name in ("d", "e", "f"):
        table = commit_staged(stage_append(table, rows(name, salt=ord(name)))).table
    staged = stage_compaction(table, rows_per_file=1_000)
    assert staged is not None
    assert contents(commit_staged(staged).table) == contents(table)


def test_a_compaction_can_be_limited_to_some_fragments(tmp_path: Path) -> None:
    table = made(open_store(str(tmp_path)), documents(0, 5))
    for first in (5, 10, 15, 20):
        table = commit_staged(stage_append(table, documents(first, first + 5))).table
    staged = stage_compaction(table, rows_per_file=1_000, fragments=[1, 2, 3])
    assert staged is not None
    landed = commit_staged(staged).table
    assert sorted(each.count_rows() for each in landed.handle.get_fragments()) == [5, 5, 15]
    assert contents_of_ids(landed) == contents_of_ids(table)


def contents_of_ids(table: Table) -> list[str]:
    return sorted(map(str, table.read(["id"]).column("id").to_pylist()))


def test_one_fragment_gains_nothing_from_compaction(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    table = made(store, documents(0, 5))
    assert stage_compaction(table, rows_per_file=1_000) is None
    empty = commit_staged(stage_overwrite(table, documents(0, 0))).table
    assert stage_compaction(empty, rows_per_file=1_000) is None


def test_indexes_can_be_made_before_the_first_row(tmp_path: Path) -> None:
    table = made(open_store(str(tmp_path)), documents(0, 0))
    table = commit_staged(stage_indexes(table, SPECS)).table
    assert index_names(table) == {each.name for each in SPECS}
    table = commit_staged(stage_append(table, documents(0, 30))).table
    assert answers(table) == answers(without_indexes(table))


def test_an_index_on_a_branch_is_the_branchs_own(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    main = made(store, documents(0, 30))
    create_branch(main, "x")
    branch = commit_staged(stage_indexes(store.open_newest(PATH, "x"), SPECS)).table
    assert index_names(branch) == {each.name for each in SPECS}
    assert index_names(fresh(main, store)) == frozenset()
    assert answers(branch) == answers(main)


@pytest.mark.parametrize("metric", ["L2", "cosine", "dot"])
def test_a_vector_index_of_any_metric_searches_exactly(tmp_path: Path, metric: Any) -> None:
    spread = np.random.default_rng(7).normal(size=(300, 4)).astype(np.float32)
    content = documents(0, 300).set_column(3, SCHEMA.field("vector"), pa.array(list(spread), VECTOR))
    table = made(open_store(str(tmp_path)), content)
    indexed = commit_staged(stage_indexes(table, [IndexSpec("vector", "vector", "v", metric=metric)])).table
    asked: dict[str, Any] = {"column": "vector", "q": spread[0], "k": 10, "metric": metric}
    found = [
        each.handle.scanner(columns=["id", "_distance"], nearest={**asked, "use_index": use}).to_table()
        for each, use in ((table, False), (indexed, True))
    ]
    assert found[0].column("id").to_pylist() == found[1].column("id").to_pylist()


def test_an_index_that_is_there_is_not_built_again(tmp_path: Path) -> None:
    table = made(open_store(str(tmp_path)), documents(0, 30))
    table = commit_staged(stage_indexes(table, SPECS[:1])).table
    with pytest.raises(ObjectExists, match="id_idx"):
        stage_indexes(table, SPECS[:1])


@pytest.mark.parametrize(
    "spec",
    [
        IndexSpec("nobody", "btree", "x"),
        IndexSpec("id", "vector", "x"),
        IndexSpec("rank", "inverted", "x"),
        IndexSpec("vector", "btree", "x"),
    ],
)
def test_an_index_that_does_not_fit_its_column_is_refused(tmp_path: Path, spec: IndexSpec) -> None:
    table = made(open_store(str(tmp_path)), documents(0, 10))
    with pytest.raises(InvalidInput, match=spec.column):
        stage_indexes(table, [spec])


def test_vectors_that_are_all_null_cannot_be_indexed_yet(tmp_path: Path) -> None:
    nulls = documents(1, 10).set_column(3, SCHEMA.field("vector"), pa.nulls(9, VECTOR))
    table = made(open_store(str(tmp_path)), nulls)
    with pytest.raises(InvalidInput, match="0 vectors"):
        stage_indexes(table, SPECS[3:])


def test_a_compaction_of_lances_own_is_readable_beside_ours(tmp_path: Path) -> None:
    """Other programs compact with two commits and remap indexes; rows and answers stay."""
    store = open_store(str(tmp_path))
    table = changed_since_indexed(store)
    raw(store).optimize.compact_files()
    after = fresh(table, store)
    assert after.version == table.version + 2
    assert answers(after) == answers(table)


def test_only_the_vectors_of_a_large_table_are_cut_into_partitions() -> None:
    assert [vector_partitions(rows) for rows in (0, 1, 49_999, 50_000, 200_000)] == [1, 1, 1, 223, 447]


def test_a_table_is_read_by_other_threads_while_its_index_is_built(tmp_path: Path) -> None:
    table = made(open_store(str(tmp_path)), documents(0, 20_000))
    built = threading.Event()

    def read_until_built() -> int:
        times = 0
        while not built.is_set():
            assert table.read(["id"], equal("rank", 3)).num_rows
            times += 1
        return times

    with ThreadPoolExecutor(1) as readers:
        reading = readers.submit(read_until_built)
        try:
            stage_indexes(table, [IndexSpec("text", "inverted", "text_idx")])
        finally:
            built.set()
        assert reading.result(60)
