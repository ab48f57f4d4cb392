"""One line of JSON as an object, strictly: no member twice at any depth, bounded structure, errors with their column.

orjson reads the line and keeps the last of two equal members, as most parsers do. Repeats are found by counting: each
member has a quote and a colon (`":`), and texts can only add to them. A line with as many as members were kept has no
repeat; one with more, or with space before a colon, is read again by a slower parser that looks.
"""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from omnigraph.write.load.values import shown

MOST_SLOTS = 131_072
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_SLOT = re.compile(rb"[{}\[\],:]")


class BadRecord(ValueError):
    """A record that does not follow the grammar."""

    def __init__(self, rule: str, message: str, *, type_name: str | None = None, property_name: str | None = None):
        super().__init__(message)
        self.rule = rule
        self.type_name = type_name
        self.property_name = property_name


def strict_object(line: bytes) -> dict[str, Any]:
    """The object that a line consists of. Raises `BadRecord`."""
    if len(line) >= MOST_SLOTS:
        _check_structure(line)
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise _not_json(line, error) from None
    if type(found) is not dict:
        raise BadRecord("not_an_object", f"expected a JSON object, got {shown(found)}")
    inner = found.get("data")
    members = len(found) + (len(inner) if type(inner) is dict else 0)
    if line.count(b'":') != members or b" :" in line or b"\t:" in line or b"\r:" in line:
        _refuse_repeats(line)
    return found


def _check_structure(line: bytes) -> None:
    slots = 1 + len(_SLOT.findall(_STRING.sub(b"", line)))
    if slots > MOST_SLOTS:
        raise BadRecord("structure", f"the record has more than {MOST_SLOTS} structural characters")


def _not_json(line: bytes, error: orjson.JSONDecodeError) -> BadRecord:
    try:
        line.decode()
    except UnicodeDecodeError as undecodable:
        column = len(line[: undecodable.start].decode()) + 1
        message = f"byte 0x{line[undecodable.start]:02X} at column {column} is not UTF-8: save the file as UTF-8"
        return BadRecord("encoding", message)
    hint = ": is the file cut off?" if "end of data" in error.msg else ""
    return BadRecord("json", f"not JSON: {error.msg} at column {error.colno}{hint}")


def _refuse_repeats(line: bytes) -> None:
    try:
        json.loads(line, object_pairs_hook=_once_each)
    except RecursionError:
        raise BadRecord("structure", "the record is nested too deeply") from None


def _once_each(members: list[tuple[str, object]]) -> dict[str, object]:
    kept: dict[str, object] = {}
    for name, value in members:
        if name in kept:
            raise BadRecord("duplicate_member", f"the member {shown(name)} stands twice in one object")
        kept[name] = value
    return kept
