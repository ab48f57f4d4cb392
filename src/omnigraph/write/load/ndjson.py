"""Graph NDJSON: one record a line (strict), or any stream of JSON values (permissive, for what old releases wrote)."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import orjson

from omnigraph.write.load.framing import LONGEST_LINE, Readable, numbered_lines
from omnigraph.write.load.graph_records import BATCH_ROWS, RecordSorter
from omnigraph.write.load.json_objects import BadRecord, strict_object
from omnigraph.write.load.places import Place, refuse
from omnigraph.write.load.values import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from omnigraph.errors import InvalidRecord
    from omnigraph.language.schema.catalog import Catalog
    from omnigraph.write.load.batches import Batch

# A batch also ends here, so that wide records do not pile up.
BATCH_BYTES = 16 << 20
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{\]}]')
_PARTIAL = object()
_SPACE = " \t\r\n"


def read_strict(stream: Readable, catalog: Catalog, *, source: str = "", first_line: int = 1) -> Iterator[Batch]:
    """Typed batches of a strict stream. `first_line` is the number of its first line, when it is a part of a file.

    Blank lines are skipped and CRLF is tolerated. The first record that does not follow the grammar is an
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
                raise bad_record(Place(source, "line", number), bad) from None
            if sorter.waiting >= BATCH_ROWS or size >= BATCH_BYTES:
                yield from sorter.batches()
                size = 0
    yield from sorter.batches()


def read_permissive(stream: Readable, catalog: Catalog, *, source: str = "", first_line: int = 1) -> Iterator[Batch]:
    """Typed batches of a permissive stream: values may span lines or share one, and unknown members are ignored.

    A scalar of a wrong JSON type counts as null. Errors name the line that the value ends on. `first_line` is the
    number of its first line, when it is a part of a file: then no value may reach into it from before, nor out of it.
    """
    sorter = RecordSorter(catalog, source=source, unit="line", lenient=True)
    for number, values in _values(stream, source, first_line):
        try:
            for value in values:
                sorter.add(_object(value), number)
        except BadRecord as bad:
            raise bad_record(Place(source, "line", number), bad) from None
        if sorter.waiting >= BATCH_ROWS:
            yield from sorter.batches()
    yield from sorter.batches()


def has_one_value_a_line(data: bytes) -> bool:
    """Whether each of these lines is a JSON value by itself, or blank: then they can be read apart from others."""
    return all(not line or line.isspace() or _whole(line) is not _PARTIAL for line in data.split(b"\n"))


def bad_record(place: Place, bad: BadRecord) -> InvalidRecord:
    """The error about a record, with its place."""
    return refuse(place, bad.rule, str(bad), type_name=bad.type_name, property_name=bad.property_name)


def _values(stream: Readable, source: str, first_line: int) -> Iterator[tuple[int, Iterable[object]]]:
    """The values of the stream, a few at a time, with the number of the line that they end on."""
    pending: list[bytes] = []
    depth = size = number = 0
    for start, lines in numbered_lines(stream, source, first_line=first_line):
        for number, line in enumerate(lines, start):
            if not pending and (whole := _whole(line)) is not _PARTIAL:
                yield number, (whole,)
                continue
            depth += sum(_step(each) for each in _TOKEN.findall(line))
            size += len(line)
            pending.append(line)
            if size > LONGEST_LINE:
                raise refuse(Place(source, "line", number), "line_length", f"a value exceeds {LONGEST_LINE} bytes")
            if depth <= 0:
                yield number, _several(pending)
                pending, depth, size = [], 0, 0
    if pending:
        yield number, _several(pending)


def _whole(line: bytes) -> object:
    """The value when the line is exactly one."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return _PARTIAL


def _step(token: bytes) -> int:
    return {b"{": 1, b"[": 1, b"}": -1, b"]": -1}.get(token, 0)


def _several(lines: list[bytes]) -> Iterator[object]:
    """The values that some lines consist of."""
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
        raise BadRecord("not_an_object", f"expected a JSON object, got {shown(value)}")
    return value


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)
