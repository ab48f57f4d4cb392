"""The internal schema version: which shape of `__manifest` this is, and which this release can open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import CorruptStamp, FormatTooNew, FormatTooOld, ManifestCorrupt

if TYPE_CHECKING:
    from omnigraph.store.tables import Table

STAMP_KEY = "omnigraph:internal_schema_version"
CURRENT = 4
# The oldest stamp that is still migrated. Raising it means deleting the steps below it: migrations/__init__.py checks.
MINIMUM = 1
NEWER_COLUMN = "stable_table_id"


def read_stamp(table: Table) -> int:
    """The stamp of a manifest; a manifest without one is version 1. Costs nothing: it came with the open."""
    value = table.dataset.schema_metadata.get(STAMP_KEY) if table.dataset.schema_metadata else None
    if value is None:
        return 1
    if not (value.isascii() and value.isdigit()):
        raise CorruptStamp(table.dataset.uri, value)
    return int(value)


def check_stamp(table: Table) -> int:
    """The stamp, if this release can open it at all."""
    stamp = read_stamp(table)
    if stamp < CURRENT and NEWER_COLUMN in table.schema.names:
        raise ManifestCorrupt(
            table.dataset.uri,
            f"{table.dataset.uri} is stamped v{stamp} or not at all, and has the column {NEWER_COLUMN!r} of a later "
            "version: its initialisation was torn, or it was damaged. Restore it from a copy.",
        )
    if stamp > CURRENT:
        raise FormatTooNew(table.dataset.uri, stamp=stamp, supported=CURRENT)
    if stamp < MINIMUM:
        raise FormatTooOld(table.dataset.uri, stamp=stamp, minimum=MINIMUM)
    return stamp
