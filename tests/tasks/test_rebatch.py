"""Rebatching: any cut of a stream into batches gives the same rows, in tables of the asked size."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.kernels.arrays import rebatch
from omnigraph.tasks.runner import pack, unpack

SIZES = st.lists(st.integers(0, 20), max_size=12)
MOST = st.none() | st.integers(1, 25)


def cut(sizes: list[int]) -> list[pa.RecordBatch]:
    numbers = iter(range(sum(sizes)))
    return [pa.record_batch({"n": pa.array([next(numbers) for _ in range(size)], pa.int64())}) for size in sizes]


@given(sizes=SIZES, rows=MOST, nbytes=st.none() | st.integers(1, 200))
def test_rows_keep_their_order_in_tables_of_the_asked_size(
    sizes: list[int], rows: int | None, nbytes: int | None
) -> None:
    tables = list(rebatch(cut(sizes), rows=rows, nbytes=nbytes))
    assert [value for each in tables for value in each.column("n").to_pylist()] == list(range(sum(sizes)))
    assert all(each.num_rows for each in tables)
    if rows is not None:
        assert all(each.num_rows <= rows for each in tables)
    for each in tables[:-1]:
        assert each.num_rows == rows or (nbytes is not None and each.nbytes >= nbytes)


@given(sizes=SIZES, rows=MOST)
def test_tables_and_batches_are_rebatched_alike(sizes: list[int], rows: int | None) -> None:
    batches = cut(sizes)
    tables = [pa.Table.from_batches([each]) for each in batches]
    assert [each.to_pydict() for each in rebatch(tables, rows=rows)] == [
        each.to_pydict() for each in rebatch(batches, rows=rows)
    ]


def test_a_stream_is_read_no_further_than_needed() -> None:
    taken = []

    def batches() -> object:
        for each in cut([5, 5, 5]):
            taken.append(each.num_rows)
            yield each

    first = next(rebatch(batches(), rows=7))  # type: ignore[arg-type]
    assert (first.num_rows, taken) == (7, [5, 5])


@given(sizes=SIZES)
def test_packed_rows_are_unpacked_as_they_were(sizes: list[int]) -> None:
    schema = pa.schema([("n", pa.int64())])
    table = pa.Table.from_batches(cut(sizes), schema)
    assert unpack(pack(table)).equals(table)
    assert unpack(pa.py_buffer(pack(table))).equals(table)
