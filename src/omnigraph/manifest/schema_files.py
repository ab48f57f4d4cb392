"""The schema files of a graph: the live files, the staged files of an unfinished change, and every schema by hash.

A schema change first writes the new files beside the live ones (`.staging`) and the schema text under its hash, then
publishes a commit that names the hash, and moves the files into place last. A reader that follows commits finds each
schema by its hash, complete, whatever the state of the live files; those are for opening a graph, and for other
releases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import ObjectChanged, ObjectExists, ObjectNotFound
from omnigraph.manifest.layout import SCHEMA_FILES, SCHEMA_STATE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.storage.objects.model import ObjectVersion
    from omnigraph.storage.objects.store import ObjectStore

    # By name: the content of a file, and its object version.
    LiveFiles = dict[str, tuple[bytes, ObjectVersion | None]]

HISTORY = "_schema_history"
STAGING = ".staging"


def store_schema_text(objects: ObjectStore, schema_hash: str, source: bytes) -> None:
    """Store the text of a schema under its hash, for the lifetime of the graph."""
    objects.write(_history_path(schema_hash), source)


def read_schema_text(objects: ObjectStore, schema_hash: str) -> bytes:
    """The text of the schema that a commit names by hash; raises `ObjectNotFound`."""
    return objects.read(_history_path(schema_hash))


def stage_files(objects: ObjectStore, files: Mapping[str, bytes]) -> None:
    """Write the files of a change beside the live ones; the state file last: its presence implies the others."""
    for name in SCHEMA_FILES:
        objects.write(f"{name}{STAGING}", files[name])


def live_files(objects: ObjectStore) -> LiveFiles:
    """The live files as they are now; a missing one has no object version."""
    return {name: _live(objects, name) for name in SCHEMA_FILES}


def promote(objects: ObjectStore, files: Mapping[str, bytes], *, over: LiveFiles) -> None:
    """Replace the live files, in the order that releases use: source, IR, state. Idempotent after an interruption.

    Raises `ObjectChanged` when a live file is neither as in `over` nor as intended: somebody else changed the schema.
    """
    for name in SCHEMA_FILES:
        data, tag = over[name]
        if data != files[name]:
            _replace(objects, name, files[name], tag)
        objects.delete(f"{name}{STAGING}")


def _live(objects: ObjectStore, name: str) -> tuple[bytes, ObjectVersion | None]:
    try:
        return objects.read_versioned(name)
    except ObjectNotFound:
        return b"", None


def _replace(objects: ObjectStore, name: str, data: bytes, tag: ObjectVersion | None) -> None:
    try:
        if tag is None:
            objects.create(name, data)
        else:
            objects.replace(name, data, tag)
    except (ObjectChanged, ObjectExists):
        # Another process that finishes the same change writes the same bytes.
        if objects.read(name) != data:
            raise


def staged_files(objects: ObjectStore) -> dict[str, bytes] | None:
    """The files of an unfinished change; None when there is none, or when it is not completely staged.

    A change that was interrupted during promotion has some of its files in place already.
    """
    if not objects.exists(f"{SCHEMA_STATE}{STAGING}"):
        return None
    found = {}
    for name in SCHEMA_FILES:
        staged = f"{name}{STAGING}"
        found[name] = objects.read(staged if objects.exists(staged) else name)
    return found


def discard_staged(objects: ObjectStore) -> None:
    """Delete the files of an abandoned change; the state file first: without it the others are ignored."""
    for name in reversed(SCHEMA_FILES):
        objects.delete(f"{name}{STAGING}")


def _history_path(schema_hash: str) -> str:
    return f"{HISTORY}/{schema_hash.rpartition(':')[2]}.pg"
