"""Reads metadata of table versions and fragments that Lance's API does not expose: fragment ids, row ids, row versions.

The greatest fragment id is read from the bytes of the table's manifest. Their layout is part of the Lance format: a
protobuf message, which a pickled dataset contains. tests/conformance/test_manifest_bytes.py checks it against the
behaviour of tables. Per fragment, Lance stores the stable row ids and the versions that created and updated each row.
All of it is written into every version file, so a table with many small commits must keep it small.
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
# The size in bytes of fixed-width wire types; the others encode their own size.
_FIXED = {1: 8, 5: 4}
_NUMBER, _SIZED = 0, 2


def greatest_fragment(dataset: lance.LanceDataset) -> int:
    """The greatest fragment id that the table ever had, according to its manifest; 0 if it never had one."""
    return max((value for field, value in _varint_fields(_manifest(dataset)) if field == _GREATEST_FRAGMENT), default=0)


def _manifest(dataset: lance.LanceDataset) -> bytes:
    for each in dataset.__reduce__()[1]:
        if isinstance(each, bytes):
            return each
    raise StoreError(
        f"{dataset.uri}: this release of Lance pickles a table without its manifest", location=str(dataset.uri)
    )


def _varint_fields(message: bytes) -> Iterator[tuple[int, int]]:
    """The top-level varint fields of a protobuf message, as field number and value."""
    at = 0
    while at < len(message):
        tag, at = _varint_at(message, at)
        field, kind = tag >> 3, tag & 7
        if kind == _NUMBER:
            value, at = _varint_at(message, at)
            yield field, value
        elif kind == _SIZED:
            size, at = _varint_at(message, at)
            at += size
        else:
            at += _FIXED[kind]


def _varint_at(message: bytes, at: int) -> tuple[int, int]:
    """Decode a varint, and return it with the offset after it."""
    value = shift = 0
    while message[at] & 128:
        value |= (message[at] & 127) << shift
        at, shift = at + 1, shift + 7
    return value | message[at] << shift, at + 1


def without_row_versions(fragment: FragmentMetadata) -> FragmentMetadata:
    """The fragment without row versions: Lance will report version 1 as the creator of all its rows."""
    return _edited(fragment, last_updated_at_version_meta=None, created_at_version_meta=None)


def has_row_versions(fragment: FragmentMetadata) -> bool:
    """Whether the fragment stores the version that created each row."""
    return fragment.to_json().get("created_at_version_meta") is not None


def row_ids(fragment: FragmentMetadata) -> pa.Array[Any] | None:
    """The stable row ids of all rows that a fragment was written with, in order; None if not in the version file."""
    if fragment.row_id_meta is None:
        return None
    try:
        ids: pa.Array[Any] = RowIdSequence.from_inline_metadata(fragment.row_id_meta).to_pyarrow()
    except NotImplementedError:  # they are stored as a column in the fragment's data file
        return None
    return ids


def _edited(fragment: FragmentMetadata, **fields: object) -> FragmentMetadata:
    return FragmentMetadata.from_json(json.dumps({**fragment.to_json(), **fields}))
