"""Upgrade from v1 to v2: makes `object_id` the primary key, so that concurrent inserts of one row conflict.

Without the key, both inserts would land.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import MigrationFailed
from omnigraph.manifest.rows import KEY, PRIMARY_KEY
from omnigraph.storage.tables.immediate import set_field_metadata

if TYPE_CHECKING:
    from omnigraph.manifest.branch_manifest import BranchManifest

_MARK = next(iter(PRIMARY_KEY)).encode()


def apply(manifest: BranchManifest) -> None:
    """Annotate the column as the primary key, unless it is annotated already: Lance forbids doing it twice."""
    keys = [field.name for field in manifest.table.schema if (field.metadata or {}).get(_MARK) == b"true"]
    if keys == [KEY]:
        return
    if keys:
        raise MigrationFailed(f"{manifest.stores.uri}: __manifest has the primary key {keys}, expected none or {KEY}")
    manifest.adopt(set_field_metadata(manifest.table, KEY, PRIMARY_KEY))
