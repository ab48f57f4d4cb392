"""What the manifest of a table's version says and no call tells, read from its bytes.

The layout is a part of the Lance format: a protobuf message, which a handle has with it when it is pickled.
tests/conformance/test_manifest_bytes.py holds it against what tables do.

What Lance keeps per fragment about its rows: their stable ids, and the versions that created and changed them.

All of it is written into every version file, so a table of many small commits must keep it small.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import lance
from lance import FragmentMetadata
from lance.fragment import RowIdSequence

from omnigraph.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa


_GREATEST_FRAGMENT = 11
# How many bytes a value of these kinds takes; others say it themselves.
_FIXED = {1: 8, 5: 4}
_NUMBER, _SIZED = 0, 2


def greatest_fragment(dataset: lance.LanceDataset) -> int:
    """The greatest fragment id that the table ever had, as its manifest keeps it; 0 for a table without one."""
    return max((number for field, number in _numbers(_manifest(dataset)) if field == _GREATEST_FRAGMENT), default=0)


def _manifest(dataset: lance.LanceDataset) -> bytes:
    for each in dataset.__reduce__()[1]:
        if isinstance(each, bytes):
            return each
    raise StoreError(
        f"{dataset.uri}: this release of Lance pickles a table without its manifest", location=str(dataset.uri)
    )


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


def without_row_versions(fragment: FragmentMetadata) -> FragmentMetadata:
    """The fragment without row versions: its rows will all read as created by version 1."""
    return _edited(fragment, last_updated_at_version_meta=None, created_at_version_meta=None)


def has_row_versions(fragment: FragmentMetadata) -> bool:
    """Whether the fragment says which version created each row."""
    return fragment.to_json().get("created_at_version_meta") is not None


def row_ids(fragment: FragmentMetadata) -> pa.Array[Any] | None:
    """The stable ids of all rows a fragment was written with, in order; None where the version file has them not."""
    if fragment.row_id_meta is None:
        return None
    try:
        ids: pa.Array[Any] = RowIdSequence.from_inline_metadata(fragment.row_id_meta).to_pyarrow()
    except NotImplementedError:  # they are a column of the fragment's file
        return None
    return ids


def _edited(fragment: FragmentMetadata, **fields: object) -> FragmentMetadata:
    return FragmentMetadata.from_json(json.dumps({**fragment.to_json(), **fields}))
