"""Staged indexes and compaction: built beside the table, committed in one operation, and the traps on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.optimize import Compaction

from conformance.tables import append, write

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def documents(tmp_path: Path) -> LanceDataset:
    """Two hundred rows with a key, a text and a vector, in two fragments."""
    table = write(tmp_path / "documents", texts(range(100)))
    return append(table, texts(range(100, 200)))


def texts(keys: range) -> pa.Table:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([float(k) for k in keys for _ in range(4)], pa.float32()), 4)
    names = pa.array([f"common word{k}" for k in keys])
    return pa.table({"id": pa.array(keys, pa.int64()), "text": names, "vector": vectors})


def stage(table: LanceDataset, column: str, kind: str, **options: int) -> lance.Index:
    fragments = [f.fragment_id for f in table.get_fragments()]
    name = f"{column}_idx"
    return table.create_index_uncommitted(column, kind, name=name, replace=True, fragment_ids=fragments, **options)


def commit_indexes(table: LanceDataset, *indexes: lance.Index) -> LanceDataset:
    operation = LanceOperation.CreateIndex(list(indexes), [])
    return LanceDataset.commit(table, Transaction(table.version, operation), max_retries=0)


def found(table: LanceDataset, word: str) -> int:
    return int(table.to_table(columns=["id"], full_text_query={"query": word, "columns": ["text"]}).num_rows)


def test_a_staged_btree_is_invisible_until_committed_and_then_used(documents: LanceDataset) -> None:
    index = stage(documents, "id", "BTREE")
    assert lance.dataset(documents.uri).describe_indices() == []
    indexed = commit_indexes(documents, index)
    assert indexed.version == documents.version + 1
    assert "ScalarIndexQuery" in indexed.scanner(filter="id = 150").explain_plan()
    assert indexed.count_rows("id = 150") == 1


def test_a_staged_full_text_segment_committed_as_it_is_gives_a_broken_index(documents: LanceDataset) -> None:
    broken = commit_indexes(documents, stage(documents, "text", "INVERTED"))
    with pytest.raises(pa.ArrowInvalid, match=r"Not found: .*tokens\.lance"):
        found(broken, "word150")


def test_a_staged_full_text_segment_is_whole_after_merging_its_parts(documents: LanceDataset) -> None:
    whole = documents.merge_existing_index_segments([stage(documents, "text", "INVERTED")])
    indexed = commit_indexes(documents, whole)
    assert indexed.version == documents.version + 1
    assert (found(indexed, "word150"), found(indexed, "common")) == (1, 200)


def test_a_staged_vector_index_answers_after_its_commit(documents: LanceDataset) -> None:
    indexed = commit_indexes(documents, stage(documents, "vector", "IVF_FLAT", num_partitions=1))
    nearest = {"column": "vector", "q": [42.0] * 4, "k": 1}
    assert indexed.to_table(columns=["id", "_distance"], nearest=nearest)["id"].to_pylist() == [42]
    assert "ANN" in indexed.scanner(nearest=nearest).explain_plan()


def test_several_indexes_are_committed_in_one_version(documents: LanceDataset) -> None:
    text = documents.merge_existing_index_segments([stage(documents, "text", "INVERTED")])
    vector = stage(documents, "vector", "IVF_FLAT", num_partitions=1)
    indexed = commit_indexes(documents, stage(documents, "id", "BTREE"), text, vector)
    assert indexed.version == documents.version + 1
    assert sorted(i.name for i in indexed.describe_indices()) == ["id_idx", "text_idx", "vector_idx"]


def test_an_index_is_replaced_by_naming_the_old_one_as_removed(documents: LanceDataset) -> None:
    indexed = commit_indexes(documents, stage(documents, "id", "BTREE"))
    old = indexed.read_transaction(indexed.version).operation.new_indices
    operation = LanceOperation.CreateIndex([stage(indexed, "id", "BTREE")], old)
    replaced = LanceDataset.commit(indexed, Transaction(indexed.version, operation), max_retries=0)
    assert [i.name for i in replaced.describe_indices()] == ["id_idx"]
    assert replaced.count_rows("id = 150") == 1


def test_an_index_of_a_taken_name_is_not_even_staged_unless_it_may_replace(documents: LanceDataset) -> None:
    indexed = commit_indexes(documents, stage(documents, "id", "BTREE"))
    with pytest.raises(RuntimeError, match="already exists"):
        indexed.create_index_uncommitted("id", "BTREE", name="id_idx", fragment_ids=[0, 1])


def staged_rewrite(table: LanceDataset) -> Transaction:
    done = [task.execute(table) for task in Compaction.plan(table, {"target_rows_per_fragment": 10_000}).tasks]
    groups = [LanceOperation.RewriteGroup(d.original_fragments, d.new_fragments) for d in done]
    return Transaction(table.version, LanceOperation.Rewrite(groups, []))


def row_ids(table: LanceDataset) -> dict[int, int]:
    rows = table.to_table(columns=["id", "_rowid"])
    return dict(zip(rows["id"].to_pylist(), rows["_rowid"].to_pylist(), strict=True))


def test_a_hand_made_rewrite_keeps_rows_and_row_ids_in_one_version(documents: LanceDataset) -> None:
    before = row_ids(documents)
    compacted = LanceDataset.commit(documents, staged_rewrite(documents), max_retries=0)
    compacted.validate()
    assert compacted.version == documents.version + 1
    assert len(compacted.get_fragments()) == 1
    assert row_ids(compacted) == before


def test_a_hand_made_rewrite_takes_its_fragments_out_of_the_index(documents: LanceDataset) -> None:
    indexed = commit_indexes(documents, stage(documents, "id", "BTREE"))
    compacted = LanceDataset.commit(indexed, staged_rewrite(indexed), max_retries=0)
    assert compacted.stats.index_stats("id_idx")["num_unindexed_rows"] == 200
    assert compacted.count_rows("id = 150") == 1
    compacted.optimize.optimize_indices()
    assert compacted.stats.index_stats("id_idx")["num_unindexed_rows"] == 0


def test_compact_files_takes_two_versions(documents: LanceDataset) -> None:
    before = documents.version
    documents.optimize.compact_files()
    assert documents.version == lance.dataset(documents.uri).version == before + 2


def test_a_compaction_of_an_indexed_table_cannot_be_read_back_as_a_transaction(documents: LanceDataset) -> None:
    """A defect of pylance 14.0.2; looking for a transaction by uuid must step over it."""
    indexed = commit_indexes(documents, stage(documents, "id", "BTREE"))
    indexed.optimize.compact_files()
    with pytest.raises(TypeError, match="RewrittenIndex"):
        indexed.read_transaction(indexed.version)
