"""What Lance keeps per fragment about its rows: their stable ids, and the versions that created and changed them.

All of it is written into every version file, so a table of many small commits must keep it small.
"""

from __future__ import annotations

import json

from lance import FragmentMetadata


def with_row_ids_of(old: FragmentMetadata, new: FragmentMetadata) -> FragmentMetadata:
    """The new fragment with the stable row ids of an old one that it replaces row by row."""
    return _edited(new, row_id_meta=old.to_json()["row_id_meta"])


def without_update_versions(fragment: FragmentMetadata) -> FragmentMetadata:
    """The fragment without the versions of last changes, for rows that are never changed."""
    return _edited(fragment, last_updated_at_version_meta=None)


def without_row_versions(fragment: FragmentMetadata) -> FragmentMetadata:
    """The fragment without row versions: its rows will all read as created by version 1."""
    return _edited(fragment, last_updated_at_version_meta=None, created_at_version_meta=None)


def has_row_versions(fragment: FragmentMetadata) -> bool:
    """Whether the fragment says which version created each row."""
    return fragment.to_json().get("created_at_version_meta") is not None


def _edited(fragment: FragmentMetadata, **fields: object) -> FragmentMetadata:
    return FragmentMetadata.from_json(json.dumps({**fragment.to_json(), **fields}))
