from __future__ import annotations

import bz2
import gzip
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.errors import InvalidInput
from omnigraph.load.bulk import splits
from omnigraph.load.bulk.splits import (
    count_lines,
    number_lines,
    number_splits,
    plan_splits,
    read_blocks,
)
from omnigraph.load.files import InputFile, list_files
from omnigraph.spark.runner import SparkRunner
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from omnigraph.load.bulk.splits import Split


@settings(max_examples=300, deadline=None)
@given(
    content=st.lists(st.sampled_from([b"\n", b"\r\n", b"a", b"bc", b"{}", b"\xc3\xa9"]), max_size=40).map(b"".join),
    split_bytes=st.integers(1, 30),
)
def test_every_line_is_read_once_with_its_number_wherever_the_file_is_cut(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, split_bytes: int
) -> None:
    file = tmp_path_factory.getbasetemp() / "content.jsonl"
    file.write_bytes(content)
    planned = plan_splits([InputFile(str(file), len(content))], split_bytes=split_bytes)
    counts = {split: count_lines(split) for split in planned}
    read = [line for split in number_splits(planned, counts) for line in lines_of(split)]
    assert read == list(enumerate(expected_lines(content), 1))
    assert sum(counts.values()) == len(read)


def test_files_are_numbered_each_from_one(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1\n2\n3\n")
    (tmp_path / "b").write_bytes(b"4\n5")
    planned = plan_splits(list_files(tmp_path, world=REAL), split_bytes=2)
    numbered = number_splits(planned, {split: count_lines(split) for split in planned})
    assert [(split.file.where[-1], split.first_line) for split in numbered] == [
        ("a", 1),
        ("a", 2),
        ("a", 3),
        ("b", 1),
        ("b", 2),
    ]


def test_a_file_without_content_has_no_splits(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "empty.jsonl.gz").touch()
    assert plan_splits(list_files(tmp_path, world=REAL)) == []


def test_counting_reads_long_ranges_in_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splits, "_STEP", 7)
    (tmp_path / "a").write_bytes(b"line\n" * 100)
    (split,) = plan_splits(list_files(tmp_path, world=REAL))
    assert count_lines(split) == 100


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst", ".lz4"])
def test_a_compressed_file_is_one_split_read_in_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setattr(splits, "_STEP", 1_000)
    content = b"".join(b"line %d\n" % number for number in range(1, 5_001)) + b"last"
    pack = {
        ".gz": gzip.compress,
        ".bz2": bz2.compress,
        ".zst": lambda data: pa.compress(data, "zstd", asbytes=True),
        ".lz4": lambda data: pa.compress(data, "lz4", asbytes=True),
    }
    (tmp_path / f"a.jsonl{suffix}").write_bytes(pack[suffix](content))
    planned = number_splits(plan_splits(list_files(tmp_path, world=REAL), split_bytes=100), {})
    assert len(planned) == 1
    blocks = list(read_blocks(planned[0]))
    assert len(blocks) > 3
    assert [line for block in blocks for line in block.lines()] == list(enumerate(expected_lines(content), 1))


def test_gzip_members_one_after_the_other_are_one_file(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"1\n2") + gzip.compress(b"2\n3\n"))
    (split,) = plan_splits(list_files(tmp_path, world=REAL))
    assert lines_of(split) == [(1, b"1"), (2, b"22"), (3, b"3")]


def test_a_truncated_compressed_file_is_an_error_that_names_the_line(tmp_path: Path) -> None:
    whole = gzip.compress(b"".join(b"%d\n" % (number * 7919 % 10_007) for number in range(10_000)))
    (tmp_path / "a.gz").write_bytes(whole[: len(whole) // 2])
    (split,) = plan_splits(list_files(tmp_path, world=REAL))
    with pytest.raises(InvalidInput, match=r"a\.gz, after line \d+: gzip cannot read on"):
        lines_of(split)


def test_a_file_without_line_ends_is_refused_before_it_is_taken_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splits, "LONGEST_LINE", 1 << 20)
    (tmp_path / "a.bin").write_bytes(b"\0" * (5 << 20))
    first, *others = plan_splits(list_files(tmp_path, world=REAL), split_bytes=1 << 20)
    with pytest.raises(InvalidInput, match=r"a\.bin has a line of more than 1 MiB"):
        lines_of(first)
    assert [lines_of(split) for split in others] == [[], [], [], []]


@pytest.mark.spark
def test_lines_are_counted_on_the_executors(spark: SparkSession, tmp_path: Path) -> None:
    text = b"".join(b'{"n": %d}\n' % number for number in range(20_000))
    (tmp_path / "a.jsonl").write_bytes(text)
    (tmp_path / "b.jsonl").write_bytes(b"one\ntwo\n")
    numbered = number_lines(SparkRunner(spark), plan_splits(list_files(tmp_path, world=REAL), split_bytes=50_000))
    assert len(numbered) > 4
    found = [(number, line) for split in numbered for number, line in lines_of(split) if b"12345" in line]
    assert found == [(12_346, b'{"n": 12345}')]
    assert lines_of(numbered[-1]) == [(1, b"one"), (2, b"two")]


def lines_of(split: Split) -> list[tuple[int, bytes]]:
    return [line for block in read_blocks(split) for line in block.lines()]


def expected_lines(content: bytes) -> Iterable[bytes]:
    lines = content.split(b"\n")
    return [each.removesuffix(b"\r") for each in (lines if lines[-1] else lines[:-1])]
