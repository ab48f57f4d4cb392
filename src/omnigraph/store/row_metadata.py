"""What Lance keeps per fragment about its rows: their stable ids, and the versions that created and changed them.

All of it is written into every version file, so a table of many small commits must keep it small.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lance import FragmentMetadata
from lance.fragment import RowIdSequence

if TYPE_CHECKING:
    import pyarrow as pa


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
