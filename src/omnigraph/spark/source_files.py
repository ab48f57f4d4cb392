"""The files of a load: found by path, directory or pattern, on disks and in buckets, and read by byte range.

Executors read with the settings that the driver resolved, so they need none of their own.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import obstore

from omnigraph.errors import InvalidInput, StoreError
from omnigraph.store.location import parse_location
from omnigraph.store.remote_objects import RemoteObjects, open_remote_objects
from omnigraph.world import REAL, World
from omnigraph.write.load.finding import bucket_of, found_at, store_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True)
class SourceFile:
    """One file: an absolute path, or the URI of an object."""

    uri: str
    size: int


def find_files(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    storage_options: Mapping[str, str] | None = None,
    world: World = REAL,
) -> list[SourceFile]:
    """The files that the sources name, each once, sorted by name. A source that names none is an `InvalidInput`.

    A directory or prefix stands for everything below it but names that begin with `.` or `_`, as in Spark. In a
    pattern, `*` and `?` stay within one name and `**` crosses directories.
    """
    given = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    found = {file for source in given for file in _files_of(os.fspath(source), storage_options, world)}
    return sorted(found, key=lambda each: each.uri)


def resolved_options(
    files: Iterable[SourceFile], storage_options: Mapping[str, str] | None = None, world: World = REAL
) -> dict[str, str]:
    """The settings with which an executor reaches the buckets of these files."""
    resolved: dict[str, str] = {}
    for bucket in sorted({bucket_of(file.uri) for file in files if "://" in file.uri}):
        resolved |= parse_location(bucket, world, storage_options).storage_options or {}
    return resolved


def read_range(file: SourceFile, start: int, end: int, storage_options: Mapping[str, str] | None = None) -> bytes:
    """The bytes from `start` up to `end`, which must be within the file as it was found."""
    if start >= end:
        return b""
    data = _read_local(file.uri, start, end) if "://" not in file.uri else _read(file.uri, start, end, storage_options)
    if len(data) != end - start:
        raise InvalidInput(f"{file.uri} became shorter while it was being read; load it again when it is complete.")
    return data


def _files_of(source: str, options: Mapping[str, str] | None, world: World) -> list[SourceFile]:
    found = [SourceFile(uri, size) for uri, size in found_at(source, world, options)]
    if not found:
        raise InvalidInput(f"there is no file at {source!r}")
    return found


def _read_local(path: str, start: int, end: int) -> bytes:
    try:
        with Path(path).open("rb") as file:
            file.seek(start)
            return file.read(end - start)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}", location=path) from error


def _read(uri: str, start: int, end: int, options: Mapping[str, str] | None) -> bytes:
    bucket = bucket_of(uri)
    store = _client(bucket, tuple(sorted((options or {}).items()))).store
    with store_errors(uri):
        return bytes(obstore.get_range(store, uri.removeprefix(bucket).strip("/"), start=start, end=end))


@functools.lru_cache(maxsize=16)
def _client(bucket: str, options: tuple[tuple[str, str], ...]) -> RemoteObjects:
    """Kept, because a worker reads many ranges of one bucket."""
    return open_remote_objects(parse_location(bucket, REAL, dict(options)), REAL)
