"""Finds and opens the files of a load on local disks and in object stores.

A source is a path, directory or glob pattern; both engines use this finder. Compressed files are decompressed according
to their suffix.
"""

from __future__ import annotations

import io
import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast

import obstore
import pyarrow as pa
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

from omnigraph.errors import InvalidInput, ObjectNotFound, StorePermissionDenied, StoreUnavailable
from omnigraph.storage.objects.location import OBJECT_STORES, Location, parse_location
from omnigraph.storage.objects.remote import RemoteObjects, open_remote_objects

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from typing_extensions import Buffer

    from omnigraph.world import World

# Hadoop's URI schemes for S3.
ALIASES = {"s3a": "s3", "s3n": "s3"}
_WILD = re.compile(r"[*?\[]")


def found_at(source: str, world: World, storage_options: Mapping[str, str] | None = None) -> list[tuple[str, int]]:
    """List the files of a path, `file://` URL, object URI, directory, prefix or pattern, with their sizes.

    Local paths are returned absolute. A directory or prefix includes everything below it except names that begin with
    `.` or `_`, as in Spark. In a pattern, `*` and `?` match within one name and `**` crosses directories.
    """
    options = storage_options or {}
    scheme, separator, rest = source.partition("://")
    scheme = ALIASES.get(scheme, scheme)
    if separator and scheme in OBJECT_STORES:
        found = list(_objects(f"{scheme}://{rest}", options, world))
    elif separator and scheme != "file":
        known = ", ".join(f"{each}://" for each in OBJECT_STORES)
        raise InvalidInput(f"{source!r} cannot be read: give a path, file:// or one of {known}")
    else:
        found = list(_local(rest if separator else source))
    return sorted(set(found))


def _local(path: str) -> Iterator[tuple[str, int]]:
    absolute = os.path.normpath(Path(path).absolute())
    if Path(absolute).is_file():
        yield absolute, Path(absolute).stat().st_size
        return
    is_pattern = not Path(absolute).exists()
    wanted = _wanted(absolute, is_pattern=is_pattern)
    for match in _glob(absolute) if is_pattern else [Path(absolute)]:
        for file in match.rglob("*") if match.is_dir() else [match]:
            if wanted(str(file)) and file.is_file():
                yield str(file), file.stat().st_size


def _glob(pattern: str) -> Iterator[Path]:
    """Expand a pattern, visiting only directories that it can match."""
    root = Path(pattern).anchor
    return Path(root).glob(os.path.relpath(pattern, root))


def _objects(uri: str, options: Mapping[str, str], world: World) -> Iterator[tuple[str, int]]:
    bucket = bucket_of(uri)
    key = uri.removeprefix(bucket).strip("/")
    objects = open_remote_objects(parse_location(bucket, world, options), world)
    if key and not _WILD.search(key) and objects.is_object(key):
        with store_errors(uri):
            yield f"{bucket}/{key}", int(obstore.head(objects.store, key)["size"])
        return
    wanted = _wanted(key, is_pattern=True)
    for each in objects.list(wanted.below):
        if wanted(each.path):
            yield f"{bucket}/{each.path}", each.size


@dataclass(frozen=True)
class _Wanted:
    """A listing prefix, and a filter that accepts paths matching the pattern and everything below them."""

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


def bucket_of(uri: str) -> str:
    """The URI of an object's bucket."""
    scheme, _, rest = uri.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


@contextmanager
def store_errors(uri: str) -> Iterator[None]:
    """Translate errors of the object store. Their text is dropped because it can contain credentials."""
    try:
        yield
    except FileNotFoundError:
        raise ObjectNotFound(f"{uri} is not there.", location=uri) from None
    except (PermissionDeniedError, UnauthenticatedError):
        raise StorePermissionDenied(f"{uri} may not be read: check the credentials.", location=uri) from None
    except BaseError as error:
        raise StoreUnavailable(f"{uri} cannot be read ({type(error).__name__}).", location=uri) from None


PACKED: dict[str, Literal["gzip", "zstd", "bz2"]] = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}


@dataclass(frozen=True)
class InputFile:
    """One file: its path or URI, its size in bytes, and the path that the user gave."""

    where: str
    size: int
    given: str = ""

    @property
    def name(self) -> str:
        """The name used in messages."""
        return self.given or self.where

    @property
    def suffix(self) -> str:
        """The suffix that determines the format, ignoring a compression suffix."""
        path = PurePosixPath(self.where)
        return (PurePosixPath(path.stem) if path.suffix in PACKED else path).suffix.lower()


def is_remote(where: str) -> bool:
    """Whether this is a URI of an object store."""
    return where.partition("://")[0] in OBJECT_STORES and "://" in where


def find_files(where: str, world: World) -> list[InputFile]:
    """The files of a path, pattern, directory or URI, sorted. Raises `InvalidInput` if there are none.

    Files of a relative path are named relative to the working directory, as the user would write them.
    """
    given = where if "://" in where else str(Path(where).expanduser())
    found = found_at(given, world)
    if not found:
        raise InvalidInput(f"there is nothing to load at {where}: check the path.")
    is_relative = "://" not in where and not Path(given).is_absolute()
    return [InputFile(os.path.relpath(uri) if is_relative else uri, size) for uri, size in found]


def open_file(found: InputFile, world: World) -> BinaryIO:
    """Open a file for reading, decompressed. Raises `InvalidInput` or a `StoreError` if it cannot be opened."""
    stream: Any = _open_remote(found, world) if is_remote(found.where) else _open_local(found)
    packer = PACKED.get(PurePosixPath(found.where).suffix)
    opened: Any = stream if packer is None else pa.CompressedInputStream(stream, packer)
    return cast("BinaryIO", opened)


def is_lance(where: str) -> bool:
    """Whether a path is a Lance dataset."""
    return where.rstrip("/").endswith(".lance") or (not is_remote(where) and (Path(where) / "_versions").is_dir())


def _open_local(found: InputFile) -> BinaryIO:
    try:
        return Path(found.where).open("rb")
    except OSError as error:
        raise InvalidInput(f"{found.name} cannot be read: {error.strerror or error}.") from error


def _parent(location: Location, world: World) -> tuple[RemoteObjects, str]:
    directory, _, name = location.uri.rpartition("/")
    return open_remote_objects(parse_location(directory, world), world), name


def _open_remote(found: InputFile, world: World) -> BinaryIO:
    objects, name = _parent(parse_location(found.where, world), world)
    try:
        return io.BufferedReader(_RemoteFile(obstore.open_reader(objects.store, name)), 1 << 20)
    except FileNotFoundError:
        raise InvalidInput(f"there is no object at {found.where}.") from None
    except BaseError:
        raise StoreUnavailable(
            f"{found.where} cannot be opened: check the credentials.", location=found.where
        ) from None


class _RemoteFile(io.RawIOBase):
    """Adapts an object reader to the file interface that Python and Arrow expect."""

    def __init__(self, reader: obstore.ReadableFile) -> None:
        self._reader = reader

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._reader.seek(offset, whence)

    def tell(self) -> int:
        return self._reader.tell()

    def readinto(self, buffer: Buffer, /) -> int:
        view = memoryview(buffer)
        data = bytes(self._reader.read(len(view)))
        view[: len(data)] = data
        return len(data)
