"""Splits text files into byte ranges, so that many tasks read one file, each the lines that begin in its range.

Ranges are planned without looking at line ends. A first pass counts the lines that begin in each range, which gives
every range the number of its first line: an error in line 1,234,567 names that line whichever task finds it.
Compressed files cannot be entered in the middle and are one range each.

Files are found by path, directory or pattern, on disks and in buckets. Executors read them with the storage options
that the driver resolved, so they need none of their own.
"""

from __future__ import annotations

import functools
import io
import os
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import obstore
import pyarrow as pa

from omnigraph.errors import InvalidInput, StoreError
from omnigraph.load.files import bucket_of, found_at, store_errors
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.objects.remote import RemoteObjects, open_remote_objects
from omnigraph.tasks.runner import SPLIT_BYTES
from omnigraph.world import REAL, World

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from omnigraph.tasks.runner import TaskRunner


@dataclass(frozen=True)
class SourceFile:
    """One file: an absolute path, or the URI of an object."""

    uri: str
    size: int


def find_files(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    storage_options: Mapping[str, str] | None = None,
    world: World = REAL,
) -> list[SourceFile]:
    """The files of all sources, without duplicates, sorted by name. Raises `InvalidInput` for a source without files.

    A directory or prefix includes everything below it except names that begin with `.` or `_`, as in Spark. In a
    pattern, `*` and `?` match within one name and `**` crosses directories.
    """
    given = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    found = {file for source in given for file in _files_of(os.fspath(source), storage_options, world)}
    return sorted(found, key=lambda each: each.uri)


def resolved_options(
    files: Iterable[SourceFile], storage_options: Mapping[str, str] | None = None, world: World = REAL
) -> dict[str, str]:
    """The storage options with which an executor reads the buckets of these files."""
    resolved: dict[str, str] = {}
    for bucket in sorted({bucket_of(file.uri) for file in files if "://" in file.uri}):
        resolved |= parse_location(bucket, world, storage_options).storage_options or {}
    return resolved


def read_range(file: SourceFile, start: int, end: int, storage_options: Mapping[str, str] | None = None) -> bytes:
    """Read the bytes from `start` up to `end`. Raises `InvalidInput` if the file was truncated since it was listed."""
    if start >= end:
        return b""
    data = _read_local(file.uri, start, end) if "://" not in file.uri else _read(file.uri, start, end, storage_options)
    if len(data) != end - start:
        raise InvalidInput(f"{file.uri} became shorter while it was being read; load it again when it is complete.")
    return data


def _files_of(source: str, options: Mapping[str, str] | None, world: World) -> list[SourceFile]:
    found = [SourceFile(uri, size) for uri, size in found_at(source, world, options)]
    if not found:
        raise InvalidInput(f"there is no file at {source!r}")
    return found


def _read_local(path: str, start: int, end: int) -> bytes:
    try:
        with Path(path).open("rb") as file:
            file.seek(start)
            return file.read(end - start)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}", location=path) from error


def _read(uri: str, start: int, end: int, options: Mapping[str, str] | None) -> bytes:
    bucket = bucket_of(uri)
    store = _client(bucket, tuple(sorted((options or {}).items()))).store
    with store_errors(uri):
        return bytes(obstore.get_range(store, uri.removeprefix(bucket).strip("/"), start=start, end=end))


@functools.lru_cache(maxsize=16)
def _client(bucket: str, options: tuple[tuple[str, str], ...]) -> RemoteObjects:
    """The client of a bucket, cached because a worker reads many ranges of one bucket."""
    return open_remote_objects(parse_location(bucket, REAL, dict(options)), REAL)


# Bounds the memory spent on a file without line ends before it is refused.
LONGEST_LINE = 256 << 20
Codec = Literal["gzip", "bz2", "zstd", "lz4"]
_STEP = 1 << 20
_CODECS: dict[str, Codec] = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
_COUNTS = pa.schema([pa.field("split", pa.int64(), nullable=False), pa.field("lines", pa.int64(), nullable=False)])


@dataclass(frozen=True)
class Split:
    """The lines of a file that begin in bytes `start` up to `end`. `first_line` counts from 1; 0 is unknown."""

    file: SourceFile
    start: int
    end: int
    first_line: int = 0

    @property
    def codec(self) -> Codec | None:
        """The compression of the file, by its suffix."""
        return next((codec for suffix, codec in _CODECS.items() if self.file.uri.endswith(suffix)), None)


@dataclass(frozen=True)
class LineBlock:
    """Complete lines; the last line of the file may lack its line end. `first_line` is 0 if unknown."""

    data: bytes
    first_line: int

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Every line with its number and without its line end."""
        for number, line in enumerate(self.data.removesuffix(b"\n").split(b"\n"), self.first_line):
            yield number, line.removesuffix(b"\r")


def plan_splits(files: Iterable[SourceFile], *, split_bytes: int = SPLIT_BYTES) -> list[Split]:
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
    ends = sum(
        read_range(split.file, start, min(start + _STEP, before_last.stop), storage_options).count(b"\n")
        for start in before_last[::_STEP]
    )
    return ends + (split.start == 0)


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


def _splits_of(file: SourceFile, split_bytes: int) -> list[Split]:
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
    parts, at, ended = [data], split.end, data.endswith(b"\n")
    while not ended and at < split.file.size:
        more = read_range(split.file, at, min(at + _STEP, split.file.size), options)
        at += len(more)
        found = more.find(b"\n")
        ended = found >= 0
        parts.append(more[: found + 1] if ended else more)
        _refuse_endless(split.file, at - split.end)
    return b"".join(parts)


def _refuse_endless(file: SourceFile, length: int) -> None:
    if length > LONGEST_LINE:
        raise InvalidInput(f"{file.uri} has a line of more than {LONGEST_LINE >> 20} MiB: is it a file of lines?")


def _read_compressed(split: Split, codec: Codec, options: Mapping[str, str] | None) -> Iterator[LineBlock]:
    raw = pa.PythonFile(io.BufferedReader(_Ranges(split.file, options), _STEP), mode="r")
    line, rest = split.first_line or 1, b""
    try:
        with pa.CompressedInputStream(raw, codec) as stream:
            while more := stream.read(_STEP * 8):
                whole, end, tail = more.rpartition(b"\n")
                if end:
                    block = LineBlock(rest + whole + end, line)
                    line += block.data.count(b"\n")
                    yield block
                    rest = tail
                else:
                    rest += tail
                    _refuse_endless(split.file, len(rest))
    except OSError as error:
        message = f"{split.file.uri}, after line {line - 1}: {codec} cannot read on ({error})"
        raise InvalidInput(message) from error
    if rest:
        yield LineBlock(rest, line)


class _Ranges(io.RawIOBase):
    """A file as a stream in which every read is a range request."""

    def __init__(self, file: SourceFile, options: Mapping[str, str] | None) -> None:
        self._file = file
        self._options = options
        self._at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = read_range(self._file, self._at, min(self._at + len(buffer), self._file.size), self._options)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
