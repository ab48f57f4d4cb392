"""The schema files of a graph on the store: the live ones, those of a change on its way, and every schema by its hash.

A change first writes the new files beside the live ones (`.staging`) and the text under its hash, then publishes a
commit that names the hash, and moves the files into place last. A reader that follows commits finds each schema by the
hash, whole, whatever has become of the live files; they are for opening a graph, and for other releases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import ObjectChanged, ObjectExists, ObjectNotFound
from omnigraph.manifest.layout import SCHEMA_FILES, SCHEMA_STATE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.storage.objects.model import ObjectVersion
    from omnigraph.storage.objects.store import ObjectStore

    # By name: what a file says, and its tag.
    LiveFiles = dict[str, tuple[bytes, ObjectVersion | None]]

HISTORY = "_schema_history"
STAGING = ".staging"


def keep_text(objects: ObjectStore, schema_hash: str, source: bytes) -> None:
    """Keep the text of a schema under its hash, for as long as the graph lives."""
    objects.write(_kept(schema_hash), source)


def kept_text(objects: ObjectStore, schema_hash: str) -> bytes:
    """The text of a schema that a commit names, or `ObjectNotFound`."""
    return objects.read(_kept(schema_hash))


def stage_files(objects: ObjectStore, files: Mapping[str, bytes]) -> None:
    """Write the files of a change beside the live ones; the state file last, so that it means that all are there."""
    for name in SCHEMA_FILES:
        objects.write(f"{name}{STAGING}", files[name])


def live_files(objects: ObjectStore) -> LiveFiles:
    """The live files as they are now; one that is not there has no tag."""
    return {name: _live(objects, name) for name in SCHEMA_FILES}


def promote(objects: ObjectStore, files: Mapping[str, bytes], *, over: LiveFiles) -> None:
    """Make these the live files, in the order of the releases: source, IR, state. Cut short, it is done again.

    `ObjectChanged` when a live file is neither as in `over` nor as it is to be: somebody else has changed the schema
    since.
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
        # Whoever finishes the same change writes the same.
        if objects.read(name) != data:
            raise


def staged_files(objects: ObjectStore) -> dict[str, bytes] | None:
    """The files of a change on its way; None when there is none, or not all of it.

    One that was interrupted while moving has some of its files in place already.
    """
    if not objects.exists(f"{SCHEMA_STATE}{STAGING}"):
        return None
    found = {}
    for name in SCHEMA_FILES:
        staged = f"{name}{STAGING}"
        found[name] = objects.read(staged if objects.exists(staged) else name)
    return found


def discard_staged(objects: ObjectStore) -> None:
    """Remove the files of a change that is not to be; the state file first: without it the others mean nothing."""
    for name in reversed(SCHEMA_FILES):
        objects.delete(f"{name}{STAGING}")


def _kept(schema_hash: str) -> str:
    return f"{HISTORY}/{schema_hash.rpartition(':')[2]}.pg"
