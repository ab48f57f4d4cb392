"""Numbers that stand for values in a load: drawn from rows, written down sorted, read by range, sifted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.kernels.hashing import PrefixFilter, hash_column, hash_rows, joined
from omnigraph.language.schema.compile import compile_schema
from omnigraph.tasks import hash_runs
from omnigraph.tasks.hash_runs import IDS, HashColumns, HashRunWriter, draw, draws_of

if TYPE_CHECKING:
    from pathlib import Path

_LAST = 2**64 - 1


def some_numbers(count: int, seed: int = 1) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    numbers = np.random.default_rng(seed).integers(0, _LAST, count, np.uint64, endpoint=True)
    numbers[:2] = (0, _LAST)
    return numbers


@pytest.mark.parametrize("parts", [1, 2, 64, 256, 1_024])
def test_the_parts_of_a_file_are_all_its_numbers_in_order(tmp_path: Path, parts: int) -> None:
    numbers, notes = some_numbers(1_000), HashRunWriter(str(tmp_path))
    assert list(notes.note(IDS, numbers)) == []
    (noted,) = notes.finish()

    read = [noted.of_part(part, parts) for part in range(parts)]

    assert noted.count == 1_000
    np.testing.assert_array_equal(np.concatenate(read), np.sort(numbers))
    assert all((each >> np.uint64(64 - parts.bit_length() + 1) == part).all() for part, each in enumerate(read[1:], 1))


def test_pairs_stay_together_and_go_by_their_first(tmp_path: Path) -> None:
    pairs, notes = np.column_stack([some_numbers(500), some_numbers(500, 2)]), HashRunWriter(str(tmp_path))
    list(notes.note(HashColumns(("a",), "id"), pairs))
    (noted,) = notes.finish()

    read = np.concatenate([noted.of_part(part, 512) for part in range(512)])

    assert sorted(map(tuple, read.tolist())) == sorted(map(tuple, pairs.tolist()))
    assert (np.diff(read[:, 0].astype(object)) >= 0).all()


def test_a_ledger_holds_only_so_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hash_runs, "_HELD", 100)
    numbers, notes = some_numbers(1_000), HashRunWriter(str(tmp_path))
    files = [noted for fragment in np.split(numbers, 20) for noted in notes.note(IDS, fragment)]
    assert len(files) == 10
    assert list(notes.finish()) == []
    np.testing.assert_array_equal(np.sort(np.concatenate([each.numbers() for each in files])), np.sort(numbers))


@pytest.mark.parametrize("few", [0, 1, 5_000])
def test_a_sieve_lets_through_what_it_was_made_of(few: int) -> None:
    numbers = some_numbers(10_000)
    chosen = numbers[::2][:few]
    near = np.concatenate([numbers, chosen + np.uint64(1)])
    np.testing.assert_array_equal(PrefixFilter.of(chosen).accepts(near), np.isin(near, chosen))


def test_numbers_are_those_of_the_values_and_tuples_with_a_null_have_none() -> None:
    rows = pa.table({"id": ["x", "y", "z"], "a": ["1", None, "3"], "b": [-0.0, 2.0, 0.0]})
    pair, single = HashColumns(("a", "b"), "id"), HashColumns(("b",))

    drawn = dict(draw(rows, [pair, single]))

    tuples, valid = hash_rows([rows["a"], rows["b"]])
    assert valid.tolist() == [True, False, True]
    np.testing.assert_array_equal(drawn[pair][:, 0], tuples)
    np.testing.assert_array_equal(drawn[pair][:, 1], hash_column(rows["id"])[[0, 2]])
    assert drawn[single][0] == drawn[single][2] != drawn[single][1]
    np.testing.assert_array_equal(tuples, joined(hash_column(rows["a"].drop_null()), drawn[single][[0, 2]]))
    assert [len(each) for _, each in draw(rows.slice(0, 0), [pair, single])] == [0, 0]


def test_what_is_drawn_follows_the_rules_of_the_type() -> None:
    schema = """
    node City { title: String @key  mayor: String? @unique }
    edge Near: City -> City
    edge Owns: City -> City @card(1..2)
    """
    catalog = compile_schema(schema)
    assert draws_of(catalog, "node:City", "append") == (IDS, HashColumns(("mayor",), "id"))
    ends = (IDS, HashColumns(("src",)), HashColumns(("dst",)))
    assert draws_of(catalog, "edge:Near", "merge") == draws_of(catalog, "edge:Owns", "overwrite") == ends
    assert draws_of(catalog, "edge:Owns", "append") == (*ends, HashColumns(("src",), "id"))
    assert draws_of(catalog, "edge:Owns", "merge") == (*ends, HashColumns(("src",), "id"), HashColumns(("id",), "src"))
