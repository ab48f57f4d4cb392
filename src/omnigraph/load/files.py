"""Finds and opens the files of a load on local disks and in object stores.

A source is a path, directory or glob pattern; both engines use this finder and `open_input`. Compressed files are
decompressed according to their suffix. Tasks in other processes read with the storage options that the driver resolved.
"""

from __future__ import annotations

import functools
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

from omnigraph.errors import InvalidInput, ObjectNotFound, StoreError, StorePermissionDenied, StoreUnavailable
from omnigraph.storage.lance.paths import VERSIONS
from omnigraph.storage.objects.location import OBJECT_STORES, parse_location
from omnigraph.storage.objects.remote import RemoteObjects, open_remote_objects
from omnigraph.world import REAL, World

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from typing_extensions import Buffer

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
        schemes = ", ".join(f"{each}://" for each in OBJECT_STORES)
        raise InvalidInput(f"{source!r} cannot be read: give a path, file:// or one of {schemes}")
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
    wildcards = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]]+\])", pattern)
    return "".join(wildcards.get(part) or (_set(part) if part.startswith("[") else re.escape(part)) for part in parts)


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


Codec = Literal["gzip", "bz2", "zstd", "lz4"]
CODECS: dict[str, Codec] = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
_BUFFER_BYTES = 1 << 20


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
        return (PurePosixPath(path.stem) if self.codec else path).suffix.lower()

    @property
    def codec(self) -> Codec | None:
        """The compression, by the suffix."""
        return CODECS.get(PurePosixPath(self.where).suffix.lower())


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


def list_files(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    world: World,
    storage_options: Mapping[str, str] | None = None,
) -> list[InputFile]:
    """The files of all sources by absolute path or URI, sorted. Raises `InvalidInput` for a source without files."""
    given = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    found: set[InputFile] = set()
    for source in [os.fspath(each) for each in given]:
        files = {InputFile(where, size) for where, size in found_at(source, world, storage_options)}
        if not files:
            raise InvalidInput(f"there is no file at {source!r}")
        found |= files
    return sorted(found, key=lambda each: each.where)


def resolved_options(
    files: Iterable[InputFile], storage_options: Mapping[str, str] | None = None, *, world: World
) -> dict[str, str]:
    """The storage options with which another process reads the buckets of these files."""
    resolved: dict[str, str] = {}
    for bucket in sorted({bucket_of(file.where) for file in files if is_remote(file.where)}):
        resolved |= parse_location(bucket, world, storage_options).storage_options or {}
    return resolved


def open_input(file: InputFile, storage_options: Mapping[str, str] | None = None) -> BinaryIO:
    """Open a file for reading, decompressed. A file that is not compressed can be sought in."""
    stream: Any = _open_stored(file, storage_options)
    opened: Any = stream if file.codec is None else pa.CompressedInputStream(stream, file.codec)
    return cast("BinaryIO", opened)


def _open_stored(file: InputFile, storage_options: Mapping[str, str] | None = None) -> BinaryIO:
    """Open a file for reading as it is stored."""
    if is_remote(file.where):
        return io.BufferedReader(_RemoteFile(file, storage_options), _BUFFER_BYTES)
    try:
        return Path(file.where).open("rb")
    except OSError as error:
        raise InvalidInput(f"{file.name} cannot be read: {error.strerror or error}.") from error


def read_range(file: InputFile, start: int, end: int, storage_options: Mapping[str, str] | None = None) -> bytes:
    """Read the bytes from `start` up to `end`. Raises `InvalidInput` if the file was truncated since it was listed."""
    if start >= end:
        return b""
    read = _read_remote if is_remote(file.where) else _read_local
    data = read(file.where, start, end, storage_options)
    if len(data) != end - start:
        raise InvalidInput(f"{file.where} became shorter while it was being read; load it again when it is complete.")
    return data


def is_lance(where: str) -> bool:
    """Whether a path is a Lance dataset."""
    return where.rstrip("/").endswith(".lance") or (not is_remote(where) and (Path(where) / VERSIONS).is_dir())


def _read_local(path: str, start: int, end: int, _: Mapping[str, str] | None) -> bytes:
    try:
        with Path(path).open("rb") as file:
            file.seek(start)
            return file.read(end - start)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}", location=path) from error


def _read_remote(uri: str, start: int, end: int, options: Mapping[str, str] | None) -> bytes:
    bucket = bucket_of(uri)
    store = _client(bucket, tuple(sorted((options or {}).items()))).store
    with store_errors(uri):
        return bytes(obstore.get_range(store, uri.removeprefix(bucket).strip("/"), start=start, end=end))


@functools.lru_cache(maxsize=16)
def _client(bucket: str, options: tuple[tuple[str, str], ...]) -> RemoteObjects:
    """The client of a bucket, cached because a process reads many ranges of one bucket."""
    return open_remote_objects(parse_location(bucket, REAL, dict(options)), REAL)


class _RemoteFile(io.RawIOBase):
    """An object as a file that can be sought in; every read is a range request."""

    def __init__(self, file: InputFile, options: Mapping[str, str] | None) -> None:
        self._file, self._options, self._at = file, options, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._at = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size}[whence] + offset
        return self._at

    def readinto(self, buffer: Buffer, /) -> int:
        view = memoryview(buffer)
        data = read_range(self._file, self._at, min(self._at + len(view), self._file.size), self._options)
        view[: len(data)] = data
        self._at += len(data)
        return len(data)
