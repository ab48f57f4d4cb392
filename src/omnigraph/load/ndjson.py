"""Reads graph NDJSON, either one record per line (strict) or any stream of JSON values (permissive).

The permissive grammar accepts what older releases wrote. Input is read as numbered lines in blocks, so memory is
bounded by the block size and the longest line, not by the size of the file.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from omnigraph.errors.root import display_text
from omnigraph.load.graph_records import BATCH_ROWS, BadRecord, RecordSorter, strict_object
from omnigraph.values.columns import SourcePosition, refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.errors import InvalidRecord
    from omnigraph.values.batches import Batch

BLOCK = 1 << 20
LONGEST_LINE = 32 << 20
_BOM = b"\xef\xbb\xbf"
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")


class Readable(Protocol):
    """A stream that can be read in chunks: an open file, a socket, a buffer."""

    def read(self, size: int, /) -> bytes | str:
        """The next chunk; empty at the end."""
        ...


def numbered_lines(
    stream: Readable, source: str, *, longest: int = LONGEST_LINE, first_line: int = 1
) -> Iterator[tuple[int, list[bytes]]]:
    """Yield blocks of lines without line ends, each with the number of its first line.

    A UTF-8 byte order mark is skipped; UTF-16 and lines longer than `longest` bytes are refused. `first_line` numbers
    the stream's first line if the stream is part of a file.
    """
    number, rest = first_line, b""
    for chunk in _chunks(stream, source):
        lines = chunk.split(b"\n")
        lines[0] = rest + lines[0]
        rest = lines.pop()
        # Only the first line and the unfinished one can span blocks, so only these two can be too long.
        for candidate, at in ((lines[0] if lines else b"", number), (rest, number + len(lines))):
            if len(candidate) > longest:
                raise refuse(
                    SourcePosition(source, "line", at), "line_length", f"the line is longer than {longest} bytes"
                )
        yield number, lines
        number += len(lines)
    if rest:
        yield number, [rest]


def _chunks(stream: Readable, source: str) -> Iterator[bytes]:
    first = True
    while chunk := stream.read(BLOCK):
        data = chunk.encode("utf-8", "surrogatepass") if isinstance(chunk, str) else bytes(chunk)
        if first:
            data = _strip_bom(data, source)
            first = False
        yield data


def _strip_bom(data: bytes, source: str) -> bytes:
    if data.startswith(_WIDE_MARKS) or b"\0" in data[:4]:
        message = "this is UTF-16 or UTF-32 text: save it as UTF-8"
        raise refuse(SourcePosition(source, "line", 1), "encoding", message)
    return data.removeprefix(_BOM)


# Bounds the memory of a batch of wide records.
BATCH_BYTES = 16 << 20
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{\]}]')
_PARTIAL = object()
_SPACE = " \t\r\n"


def read_strict(stream: Readable, catalog: Catalog, *, source: str = "", first_line: int = 1) -> Iterator[Batch]:
    """Read typed batches with the strict grammar. `first_line` numbers the first line if this is part of a file.

    Blank lines are skipped and CRLF is tolerated. The first record that violates the grammar raises an
    `InvalidRecord` that names its line.
    """
    sorter = RecordSorter(catalog, source=source, unit="line")
    size = 0
    for start, lines in numbered_lines(stream, source, first_line=first_line):
        for number, line in enumerate(lines, start):
            if not line or line.isspace():
                continue
            size += len(line)
            try:
                sorter.add(strict_object(line), number)
            except BadRecord as bad:
                raise bad_record(SourcePosition(source, "line", number), bad) from None
            if sorter.buffered >= BATCH_ROWS or size >= BATCH_BYTES:
                yield from sorter.batches()
                size = 0
    yield from sorter.batches()


def read_permissive(stream: Readable, catalog: Catalog, *, source: str = "", first_line: int = 1) -> Iterator[Batch]:
    """Read typed batches with the permissive grammar: values may span or share lines, unknown members are ignored.

    A scalar of the wrong JSON type is read as null. Errors name the line on which the value ends. If the stream is
    part of a file, `first_line` numbers its first line, and no value may cross the part's boundaries.
    """
    sorter = RecordSorter(catalog, source=source, unit="line", lenient=True)
    for number, values in _values(stream, source, first_line):
        try:
            for value in values:
                sorter.add(_object(value), number)
        except BadRecord as bad:
            raise bad_record(SourcePosition(source, "line", number), bad) from None
        if sorter.buffered >= BATCH_ROWS:
            yield from sorter.batches()
    yield from sorter.batches()


def has_one_value_a_line(data: bytes) -> bool:
    """Whether every line is blank or one complete JSON value, so that the file can be split at line ends."""
    return all(not line or line.isspace() or _whole(line) is not _PARTIAL for line in data.split(b"\n"))


def bad_record(position: SourcePosition, bad: BadRecord) -> InvalidRecord:
    """The `InvalidRecord` for a bad record at a source position."""
    return refuse(position, bad.rule, str(bad), type_name=bad.type_name, property_name=bad.property_name)


def _values(stream: Readable, source: str, first_line: int) -> Iterator[tuple[int, Iterable[object]]]:
    """Yield the JSON values of the stream in groups, each with the number of the line on which the group ends."""
    unfinished: list[bytes] = []
    depth = size = number = 0
    for start, lines in numbered_lines(stream, source, first_line=first_line):
        for number, line in enumerate(lines, start):
            if not unfinished and (whole := _whole(line)) is not _PARTIAL:
                yield number, (whole,)
                continue
            depth += sum(_step(each) for each in _TOKEN.findall(line))
            size += len(line)
            unfinished.append(line)
            if size > LONGEST_LINE:
                raise refuse(
                    SourcePosition(source, "line", number), "line_length", f"a value exceeds {LONGEST_LINE} bytes"
                )
            if depth <= 0:
                yield number, _several(unfinished)
                unfinished, depth, size = [], 0, 0
    if unfinished:
        yield number, _several(unfinished)


def _whole(line: bytes) -> object:
    """The value of a line that is exactly one JSON value, else `_PARTIAL`."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return _PARTIAL


def _step(token: bytes) -> int:
    return {b"{": 1, b"[": 1, b"}": -1, b"]": -1}.get(token, 0)


def _several(lines: list[bytes]) -> Iterator[object]:
    """Decode the sequence of JSON values in these lines."""
    text = b"\n".join(lines)
    try:
        decoded, position = text.decode(), 0
        while (position := _after_space(decoded, position)) < len(decoded):
            value, position = _DECODER.raw_decode(decoded, position)
            yield value
    except UnicodeDecodeError as error:
        raise BadRecord("encoding", f"byte 0x{text[error.start]:02X} is not UTF-8: save the file as UTF-8") from None
    except RecursionError:
        raise BadRecord("structure", "the record is nested too deeply") from None
    except ValueError as error:
        raise BadRecord("json", f"not JSON: {error}") from None


def _after_space(text: str, position: int) -> int:
    while position < len(text) and text[position] in _SPACE:
        position += 1
    return position


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadRecord("not_an_object", f"expected a JSON object, got {display_text(value)}")
    return value


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)
