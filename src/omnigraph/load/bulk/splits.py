"""Splits text files into byte ranges, so that many tasks read one file, each the lines that begin in its range.

Ranges are planned without looking at line ends. A first pass counts the lines that begin in each range, which gives
every range the number of its first line: an error in line 1,234,567 names that line whichever task finds it.
Compressed files cannot be entered in the middle and are one range each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate, groupby, pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.errors import InvalidInput
from omnigraph.load.files import open_input, read_range
from omnigraph.tasks.runner import SPLIT_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from omnigraph.load.files import Codec, InputFile
    from omnigraph.tasks.runner import TaskRunner


# Bounds the memory spent on a file without line ends before it is refused.
LONGEST_LINE = 256 << 20
_STEP = 1 << 20
_COUNTS = pa.schema([pa.field("split", pa.int64(), nullable=False), pa.field("lines", pa.int64(), nullable=False)])


@dataclass(frozen=True)
class Split:
    """The lines of a file that begin in bytes `start` up to `end`. `first_line` counts from 1; 0 is unknown."""

    file: InputFile
    start: int
    end: int
    first_line: int = 0

    @property
    def codec(self) -> Codec | None:
        """The compression of the file, by its suffix."""
        return self.file.codec


@dataclass(frozen=True)
class LineBlock:
    """Complete lines; the last line of the file may lack its line end. `first_line` is 0 if unknown."""

    data: bytes
    first_line: int

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Every line with its number and without its line end."""
        for number, line in enumerate(self.data.removesuffix(b"\n").split(b"\n"), self.first_line):
            yield number, line.removesuffix(b"\r")


def plan_splits(files: Iterable[InputFile], *, split_bytes: int = SPLIT_BYTES) -> list[Split]:
    """Split all files, in order. Empty files have no split."""
    return [split for file in files for split in _splits_of(file, split_bytes)]


def read_blocks(split: Split, storage_options: Mapping[str, str] | None = None) -> Iterator[LineBlock]:
    """Read the lines of a split in blocks that fit in memory; at most one block unless the file is compressed."""
    if split.codec is not None:
        yield from _read_compressed(split, split.codec, storage_options)
        return
    data = _lines_that_begin_in(split, storage_options)
    if data:
        yield LineBlock(data, split.first_line)


def count_lines(split: Split, storage_options: Mapping[str, str] | None = None) -> int:
    """Count the lines that begin in a split of an uncompressed file."""
    before_last = range(max(split.start - 1, 0), split.end - 1)
    line_ends = sum(
        read_range(split.file, start, min(start + _STEP, before_last.stop), storage_options).count(b"\n")
        for start in before_last[::_STEP]
    )
    return line_ends + (split.start == 0)


def number_splits(splits: Sequence[Split], counts: Mapping[Split, int]) -> list[Split]:
    """Set `first_line` of each split, given the line counts of all but the last split of every file."""
    numbered = []
    for _, of_file in groupby(splits, key=lambda each: each.file):
        some = list(of_file)
        firsts = accumulate((counts[each] for each in some[:-1]), initial=1)
        numbered += [replace(each, first_line=first) for each, first in zip(some, firsts, strict=True)]
    return numbered


def number_lines(
    runner: TaskRunner, splits: Sequence[Split], storage_options: Mapping[str, str] | None = None
) -> list[Split]:
    """Count lines in tasks and number the splits. Files with a single split need no counting."""
    to_count = [split for split, after in pairwise(splits) if split.file == after.file]
    if not to_count:
        return number_splits(splits, {})

    def work(task: tuple[int, Split]) -> Iterator[pa.RecordBatch]:
        number, split = task
        yield pa.record_batch([[number], [count_lines(split, storage_options)]], schema=_COUNTS)

    counted: Any = runner.map(list(enumerate(to_count)), work, _COUNTS).collect()
    lines = dict(zip(counted["split"].to_pylist(), counted["lines"].to_pylist(), strict=True))
    return number_splits(splits, {split: lines[number] for number, split in enumerate(to_count)})


def _splits_of(file: InputFile, split_bytes: int) -> list[Split]:
    whole = Split(file, 0, file.size)
    if whole.codec is not None:
        return [whole] if file.size else []
    return [Split(file, start, min(start + split_bytes, file.size)) for start in range(0, file.size, split_bytes)]


def _lines_that_begin_in(split: Split, options: Mapping[str, str] | None) -> bytes:
    """The lines that begin in the split. The byte before the range tells whether a line begins at its first byte."""
    if split.start == 0:
        return _with_rest_of_last_line(split, read_range(split.file, 0, split.end, options), options)
    data = read_range(split.file, split.start - 1, split.end, options)
    first_end = data.find(b"\n")
    if first_end < 0 or first_end == len(data) - 1:
        return b""
    return _with_rest_of_last_line(split, data[first_end + 1 :], options)


def _with_rest_of_last_line(split: Split, data: bytes, options: Mapping[str, str] | None) -> bytes:
    chunks, at, ended = [data], split.end, data.endswith(b"\n")
    while not ended and at < split.file.size:
        more = read_range(split.file, at, min(at + _STEP, split.file.size), options)
        at += len(more)
        found = more.find(b"\n")
        ended = found >= 0
        chunks.append(more[: found + 1] if ended else more)
        _refuse_endless(split.file, at - split.end)
    return b"".join(chunks)


def _refuse_endless(file: InputFile, length: int) -> None:
    if length > LONGEST_LINE:
        raise InvalidInput(f"{file.where} has a line of more than {LONGEST_LINE >> 20} MiB: is it a file of lines?")


def _read_compressed(split: Split, codec: Codec, options: Mapping[str, str] | None) -> Iterator[LineBlock]:
    line, rest = split.first_line or 1, b""
    try:
        with open_input(split.file, options) as stream:
            while more := stream.read(_STEP * 8):
                whole, end, unfinished = more.rpartition(b"\n")
                if end:
                    block = LineBlock(rest + whole + end, line)
                    line += block.data.count(b"\n")
                    yield block
                    rest = unfinished
                else:
                    rest += unfinished
                    _refuse_endless(split.file, len(rest))
    except OSError as error:
        message = f"{split.file.where}, after line {line - 1}: {codec} cannot read on ({error})"
        raise InvalidInput(message) from error
    if rest:
        yield LineBlock(rest, line)
