"""The schema files of a graph on the store: the live ones, those of a change on its way, and every schema by its hash.

A change first writes the new files beside the live ones (`.staging`) and the text under its hash, then publishes a
commit that names the hash, and moves the files into place last. A reader that follows commits finds each schema by the
hash, whole, whatever has become of the live files; they are for opening a graph, and for other releases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.manifest.layout import SCHEMA_FILES, SCHEMA_STATE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.store.objects import ControlStore

HISTORY = "_schema_history"
STAGING = ".staging"


def keep_text(objects: ControlStore, schema_hash: str, source: bytes) -> None:
    """Keep the text of a schema under its hash, for as long as the graph lives."""
    objects.write(_kept(schema_hash), source)


def kept_text(objects: ControlStore, schema_hash: str) -> bytes:
    """The text of a schema that a commit names, or `ObjectNotFound`."""
    return objects.read(_kept(schema_hash))


def stage_files(objects: ControlStore, files: Mapping[str, bytes]) -> None:
    """Write the files of a change beside the live ones; the state file last, so that it means that all are there."""
    for name in SCHEMA_FILES:
        objects.write(f"{name}{STAGING}", files[name])


def promote(objects: ControlStore, files: Mapping[str, bytes]) -> None:
    """Make these the live files, in the order of the releases: source, IR, state. Cut short, it is done again."""
    for name in SCHEMA_FILES:
        objects.write(name, files[name])
        objects.delete(f"{name}{STAGING}")


def staged_files(objects: ControlStore) -> dict[str, bytes] | None:
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


def discard_staged(objects: ControlStore) -> None:
    """Remove the files of a change that is not to be; the state file first: without it the others mean nothing."""
    for name in reversed(SCHEMA_FILES):
        objects.delete(f"{name}{STAGING}")


def _kept(schema_hash: str) -> str:
    return f"{HISTORY}/{schema_hash.rpartition(':')[2]}.pg"
