"""What the manifest of a table's version says and no call tells, read from its bytes.

The layout is a part of the Lance format: a protobuf message, which a handle has with it when it is pickled.
tests/conformance/test_manifest_bytes.py holds it against what tables do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.store.tables import Table

_GREATEST_FRAGMENT = 11
# How many bytes a value of these kinds takes; others say it themselves.
_FIXED = {1: 8, 5: 4}
_NUMBER, _SIZED = 0, 2


def greatest_fragment(table: Table) -> int:
    """The greatest number that a piece of the table ever had; 0 for a table that never had any."""
    told = [number for field, number in _numbers(_manifest(table)) if field == _GREATEST_FRAGMENT]
    return max([*told, *table.fragment_ids()], default=0)


def _manifest(table: Table) -> bytes:
    for each in table.dataset.__reduce__()[1]:
        if isinstance(each, bytes):
            return each
    raise StoreError(f"{table.path}: this release of Lance pickles a table without its manifest", location=table.path)


def _numbers(message: bytes) -> Iterator[tuple[int, int]]:
    """The numbers that stand in a message itself, with the numbers of their fields."""
    at = 0
    while at < len(message):
        tag, at = _number_at(message, at)
        field, kind = tag >> 3, tag & 7
        if kind == _NUMBER:
            value, at = _number_at(message, at)
            yield field, value
        elif kind == _SIZED:
            size, at = _number_at(message, at)
            at += size
        else:
            at += _FIXED[kind]


def _number_at(message: bytes, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, the lowest first, and where it ends."""
    value = shift = 0
    while message[at] & 128:
        value |= (message[at] & 127) << shift
        at, shift = at + 1, shift + 7
    return value | message[at] << shift, at + 1
