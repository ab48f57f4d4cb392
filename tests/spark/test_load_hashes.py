"""Hashes of the rows of a load: computed, written as sorted runs, read by partition, filtered by prefix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.kernels.hashing import PrefixFilter, hash_column, hash_rows, joined
from omnigraph.language.schema.compile import compile_schema
from omnigraph.tasks import hash_runs
from omnigraph.tasks.hash_runs import IDS, HashColumns, HashRunWriter, compute_hashes, hash_columns_of

if TYPE_CHECKING:
    from pathlib import Path

_LAST = 2**64 - 1


def some_hashes(count: int, seed: int = 1) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    hashes = np.random.default_rng(seed).integers(0, _LAST, count, np.uint64, endpoint=True)
    hashes[:2] = (0, _LAST)
    return hashes


@pytest.mark.parametrize("partitions", [1, 2, 64, 256, 1_024])
def test_the_partitions_of_a_run_are_all_its_hashes_in_order(tmp_path: Path, partitions: int) -> None:
    hashes, writer = some_hashes(1_000), HashRunWriter(str(tmp_path))
    assert list(writer.add(IDS, hashes)) == []
    (run,) = writer.finish()

    read = [run.of_partition(partition, partitions) for partition in range(partitions)]

    assert run.count == 1_000
    np.testing.assert_array_equal(np.concatenate(read), np.sort(hashes))
    assert all(
        (each >> np.uint64(64 - partitions.bit_length() + 1) == partition).all()
        for partition, each in enumerate(read[1:], 1)
    )


def test_pairs_stay_together_and_go_by_their_first(tmp_path: Path) -> None:
    pairs, writer = np.column_stack([some_hashes(500), some_hashes(500, 2)]), HashRunWriter(str(tmp_path))
    list(writer.add(HashColumns(("a",), "id"), pairs))
    (run,) = writer.finish()

    read = np.concatenate([run.of_partition(partition, 512) for partition in range(512)])

    assert sorted(map(tuple, read.tolist())) == sorted(map(tuple, pairs.tolist()))
    assert (np.diff(read[:, 0].astype(object)) >= 0).all()


def test_a_writer_buffers_only_so_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hash_runs, "_MOST_BUFFERED", 100)
    hashes, writer = some_hashes(1_000), HashRunWriter(str(tmp_path))
    files = [run for fragment in np.split(hashes, 20) for run in writer.add(IDS, fragment)]
    assert len(files) == 10
    assert list(writer.finish()) == []
    np.testing.assert_array_equal(np.sort(np.concatenate([each.hashes() for each in files])), np.sort(hashes))


@pytest.mark.parametrize("few", [0, 1, 5_000])
def test_a_prefix_filter_accepts_what_it_was_made_of(few: int) -> None:
    hashes = some_hashes(10_000)
    chosen = hashes[::2][:few]
    near = np.concatenate([hashes, chosen + np.uint64(1)])
    np.testing.assert_array_equal(PrefixFilter.of(chosen).accepts(near), np.isin(near, chosen))


def test_hashes_are_those_of_the_values_and_tuples_with_a_null_have_none() -> None:
    rows = pa.table({"id": ["x", "y", "z"], "a": ["1", None, "3"], "b": [-0.0, 2.0, 0.0]})
    pair, single = HashColumns(("a", "b"), "id"), HashColumns(("b",))

    drawn = dict(compute_hashes(rows, [pair, single]))

    tuples, valid = hash_rows([rows["a"], rows["b"]])
    assert valid.tolist() == [True, False, True]
    np.testing.assert_array_equal(drawn[pair][:, 0], tuples)
    np.testing.assert_array_equal(drawn[pair][:, 1], hash_column(rows["id"])[[0, 2]])
    assert drawn[single][0] == drawn[single][2] != drawn[single][1]
    np.testing.assert_array_equal(tuples, joined(hash_column(rows["a"].drop_null()), drawn[single][[0, 2]]))
    assert [len(each) for _, each in compute_hashes(rows.slice(0, 0), [pair, single])] == [0, 0]


def test_what_is_drawn_follows_the_rules_of_the_type() -> None:
    schema = """
    node City { title: String @key  mayor: String? @unique }
    edge Near: City -> City
    edge Owns: City -> City @card(1..2)
    """
    catalog = compile_schema(schema)
    assert hash_columns_of(catalog, "node:City", "append") == (IDS, HashColumns(("mayor",), "id"))
    ends = (IDS, HashColumns(("src",)), HashColumns(("dst",)))
    assert hash_columns_of(catalog, "edge:Near", "merge") == hash_columns_of(catalog, "edge:Owns", "overwrite") == ends
    assert hash_columns_of(catalog, "edge:Owns", "append") == (*ends, HashColumns(("src",), "id"))
    assert hash_columns_of(catalog, "edge:Owns", "merge") == (
        *ends,
        HashColumns(("src",), "id"),
        HashColumns(("id",), "src"),
    )
