"""The files of a load: found by path, directory or pattern, on disks and in buckets, and read by byte range.

Executors read with the settings that the driver resolved, so they need none of their own.
"""

from __future__ import annotations

import functools
import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

from omnigraph.errors import InvalidInput, ObjectNotFound, StoreError, StorePermissionDenied, StoreUnavailable
from omnigraph.store.location import OBJECT_STORES, parse_location
from omnigraph.store.remote_objects import RemoteObjects, open_remote_objects
from omnigraph.world import REAL, World

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# Hadoop's names for the same store.
_ALIASES = {"s3a": "s3", "s3n": "s3"}
_WILD = re.compile(r"[*?\[]")


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
    found = {file for source in given for file in _files_of(os.fspath(source), storage_options or {}, world)}
    return sorted(found, key=lambda each: each.uri)


def resolved_options(
    files: Iterable[SourceFile], storage_options: Mapping[str, str] | None = None, world: World = REAL
) -> dict[str, str]:
    """The settings with which an executor reaches the buckets of these files."""
    resolved: dict[str, str] = {}
    for bucket in sorted({_bucket_of(file.uri) for file in files if "://" in file.uri}):
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


def _files_of(source: str, options: Mapping[str, str], world: World) -> list[SourceFile]:
    scheme, separator, rest = source.partition("://")
    scheme = _ALIASES.get(scheme, scheme)
    if separator and scheme in OBJECT_STORES:
        found = list(_objects(f"{scheme}://{rest}", options, world))
    elif separator and scheme != "file":
        known = ", ".join(f"{each}://" for each in OBJECT_STORES)
        raise InvalidInput(f"{source!r} cannot be read: give a path, file:// or one of {known}")
    else:
        found = list(_local(rest if separator else source))
    if not found:
        raise InvalidInput(f"there is no file at {source!r}")
    return found


def _local(path: str) -> Iterator[SourceFile]:
    absolute = os.path.normpath(Path(path).absolute())
    if Path(absolute).is_file():
        yield SourceFile(absolute, Path(absolute).stat().st_size)
        return
    is_pattern = not Path(absolute).exists()
    wanted = _wanted(absolute, is_pattern=is_pattern)
    for match in _glob(absolute) if is_pattern else [Path(absolute)]:
        for file in match.rglob("*") if match.is_dir() else [match]:
            if wanted(str(file)) and file.is_file():
                yield SourceFile(str(file), file.stat().st_size)


def _glob(pattern: str) -> Iterator[Path]:
    """Looks only into directories that the pattern can match."""
    root = Path(pattern).anchor
    return Path(root).glob(os.path.relpath(pattern, root))


def _objects(uri: str, options: Mapping[str, str], world: World) -> Iterator[SourceFile]:
    bucket = _bucket_of(uri)
    key = uri.removeprefix(bucket).strip("/")
    objects = open_remote_objects(parse_location(bucket, world, options), world)
    if key and not _WILD.search(key) and objects.is_object(key):
        with _errors(uri):
            yield SourceFile(f"{bucket}/{key}", int(obstore.head(objects.store, key)["size"]))
        return
    wanted = _wanted(key, is_pattern=True)
    for each in objects.list(wanted.below):
        if wanted(each.path):
            yield SourceFile(f"{bucket}/{each.path}", each.size)


@dataclass(frozen=True)
class _Wanted:
    """What to list, and which of it is meant: what the pattern names, and everything below that."""

    below: str
    pattern: re.Pattern[str]

    def __call__(self, path: str) -> bool:
        parts = path.removeprefix(self.below).strip("/").split("/")
        return not any(part.startswith((".", "_")) for part in parts) and self.pattern.fullmatch(path) is not None


def _wanted(path: str, *, is_pattern: bool) -> _Wanted:
    wild = _WILD.search(path) if is_pattern else None
    if wild is None:
        return _Wanted(path, re.compile(".*", re.DOTALL))
    return _Wanted(path[: wild.start()].rpartition("/")[0], re.compile(_expression(path) + "(/.*)?", re.DOTALL))


def _expression(pattern: str) -> str:
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]]+\])", pattern)
    return "".join(words.get(part) or (_set(part) if part.startswith("[") else re.escape(part)) for part in parts)


def _set(part: str) -> str:
    if len(part) < 3:
        return re.escape(part)
    inner = part[1:-1].replace("\\", r"\\")
    return f"[^{inner[1:]}]" if inner.startswith("!") else f"[{inner}]"


def _bucket_of(uri: str) -> str:
    scheme, _, rest = uri.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def _read_local(path: str, start: int, end: int) -> bytes:
    try:
        with Path(path).open("rb") as file:
            file.seek(start)
            return file.read(end - start)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}", location=path) from error


def _read(uri: str, start: int, end: int, options: Mapping[str, str] | None) -> bytes:
    bucket = _bucket_of(uri)
    store = _client(bucket, tuple(sorted((options or {}).items()))).store
    with _errors(uri):
        return bytes(obstore.get_range(store, uri.removeprefix(bucket).strip("/"), start=start, end=end))


@functools.lru_cache(maxsize=16)
def _client(bucket: str, options: tuple[tuple[str, str], ...]) -> RemoteObjects:
    """Kept, because a worker reads many ranges of one bucket."""
    return open_remote_objects(parse_location(bucket, REAL, dict(options)), REAL)


@contextmanager
def _errors(uri: str) -> Iterator[None]:
    """The store's errors as ours. Their text is left out, because it can carry credentials."""
    try:
        yield
    except FileNotFoundError:
        raise ObjectNotFound(f"{uri} is not there.", location=uri) from None
    except (PermissionDeniedError, UnauthenticatedError):
        raise StorePermissionDenied(f"{uri} may not be read: check the credentials.", location=uri) from None
    except BaseError as error:
        raise StoreUnavailable(f"{uri} cannot be read ({type(error).__name__}).", location=uri) from None
