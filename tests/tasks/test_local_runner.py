"""Tasks in this process: what items yield, brought together by partition, spilled on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from omnigraph.errors import InvalidInput
from omnigraph.tasks.local_runner import LocalRunner
from omnigraph.tasks.runner import PARTITION, Sizes, sizes_of

if TYPE_CHECKING:
    from collections.abc import Iterator

SENT = pa.schema([(PARTITION, pa.int32()), ("value", pa.int64())])
SUMS = pa.schema([("sum", pa.int64())])


def emit(item: int) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch([[item % 2, (item + 1) % 2], [item, 10 * item]], schema=SENT)


def total(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch([[sum(value for each in batches for value in each.column(1).to_pylist())]], schema=SUMS)


def test_items_are_mapped_in_order() -> None:
    assert LocalRunner().map([1, 2], emit, SENT).collect().column("value").to_pylist() == [1, 10, 2, 20]


def test_nothing_runs_before_it_is_collected() -> None:
    def fail(item: int) -> Iterator[pa.RecordBatch]:
        raise InvalidInput(f"item {item}")

    mapped = LocalRunner().map([7], fail, SENT)
    with pytest.raises(InvalidInput, match="item 7"):
        mapped.collect()


def test_rows_meet_by_partition_and_an_empty_one_is_reduced_too() -> None:
    runner = LocalRunner()
    sums = runner.exchange(runner.map([1, 2, 3], emit, SENT), 3, total, SUMS).collect()
    assert sums.column("sum").to_pylist() == [10 + 2 + 30, 1 + 20 + 3, 0]


def test_neighbouring_partitions_are_reduced_together_up_to_a_size() -> None:
    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([[sum(each.num_rows for each in batches)]], schema=SUMS)

    def sums(runner: LocalRunner) -> list[object]:
        sent = runner.map(range(8), emit_one, SENT)
        return runner.exchange(sent, 8, count, SUMS).collect().column("sum").to_pylist()

    def emit_one(item: int) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([[item], [item]], schema=SENT)

    assert sums(LocalRunner()) == [1] * 8
    assert sums(LocalRunner(group_bytes=1 << 20)) == [8]
    some = sums(LocalRunner(group_bytes=1_000))
    assert (sum(map(int, map(str, some))), 1 < len(some) < 8) == (8, True)


def test_a_table_is_a_frame_of_this_runner() -> None:
    table = pa.Table.from_batches([*emit(1), *emit(2)])
    assert LocalRunner().map_frame(table, total, SUMS).collect().column("sum").to_pylist() == [33]


def test_without_settings_the_sizes_are_the_defaults() -> None:
    assert sizes_of(LocalRunner()) == Sizes()
