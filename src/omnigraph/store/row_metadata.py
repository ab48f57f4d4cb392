"""What Lance keeps per fragment about its rows: their stable ids, and the versions that created and changed them.

All of it is written into every version file, so a table of many small commits must keep it small.
"""

from __future__ import annotations

import json

from lance import FragmentMetadata


def in_place_of(old: FragmentMetadata, new: FragmentMetadata) -> FragmentMetadata:
    """The new fragment under the id of an old one that it replaces row by row, with all that is kept about its rows.

    Lance tells two commits that change one fragment by its id: as long as the id stays, they conflict.
    """
    kept = ("id", "row_id_meta", "created_at_version_meta", "last_updated_at_version_meta")
    facts = old.to_json()
    return _edited(new, **{name: facts[name] for name in kept})


def without_row_versions(fragment: FragmentMetadata) -> FragmentMetadata:
    """The fragment without row versions: its rows will all read as created by version 1."""
    return _edited(fragment, last_updated_at_version_meta=None, created_at_version_meta=None)


def has_row_versions(fragment: FragmentMetadata) -> bool:
    """Whether the fragment says which version created each row."""
    return fragment.to_json().get("created_at_version_meta") is not None


def _edited(fragment: FragmentMetadata, **fields: object) -> FragmentMetadata:
    return FragmentMetadata.from_json(json.dumps({**fragment.to_json(), **fields}))
