"""Files to load, wherever they are: found by path, glob or directory, opened as bytes, unpacked by their suffix."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast

import obstore
import pyarrow as pa
from obstore.exceptions import BaseError

from omnigraph.errors import InvalidInput, StoreUnavailable
from omnigraph.store.location import OBJECT_STORES, Location, parse_location
from omnigraph.store.remote_objects import RemoteObjects, open_remote_objects
from omnigraph.write.load.finding import found_at

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from omnigraph.world import World

PACKED: dict[str, Literal["gzip", "zstd", "bz2"]] = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}


@dataclass(frozen=True)
class Found:
    """One file: its absolute path or URI, its size in bytes, and the path it was given by."""

    where: str
    size: int
    given: str = ""

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.given or self.where

    @property
    def suffix(self) -> str:
        """The suffix that tells its format, without that of a packer."""
        path = PurePosixPath(self.where)
        return (PurePosixPath(path.stem) if path.suffix in PACKED else path).suffix.lower()


def is_remote(where: str) -> bool:
    """Whether this is a URI of an object store."""
    return where.partition("://")[0] in OBJECT_STORES and "://" in where


def find_files(where: str, world: World) -> list[Found]:
    """The files that a path, a pattern, a directory or the URI of one stands for, sorted. None at all is an error.

    Files of a relative path are named relative to where we are, as the user would.
    """
    given = where if "://" in where else str(Path(where).expanduser())
    found = found_at(given, world)
    if not found:
        raise InvalidInput(f"there is nothing to load at {where}: check the path.")
    is_relative = "://" not in where and not Path(given).is_absolute()
    return [Found(os.path.relpath(uri) if is_relative else uri, size) for uri, size in found]


def open_file(found: Found, world: World) -> BinaryIO:
    """The bytes of a file, unpacked. Raises `InvalidInput` or a `StoreError` when they cannot be had."""
    stream: Any = _open_remote(found, world) if is_remote(found.where) else _open_local(found)
    packer = PACKED.get(PurePosixPath(found.where).suffix)
    opened: Any = stream if packer is None else pa.CompressedInputStream(stream, packer)
    return cast("BinaryIO", opened)


def is_lance(where: str) -> bool:
    """Whether a path is a Lance dataset."""
    return where.rstrip("/").endswith(".lance") or (not is_remote(where) and (Path(where) / "_versions").is_dir())


def _open_local(found: Found) -> BinaryIO:
    try:
        return Path(found.where).open("rb")
    except OSError as error:
        raise InvalidInput(f"{found.name} cannot be read: {error.strerror or error}.") from error


def _parent(location: Location, world: World) -> tuple[RemoteObjects, str]:
    directory, _, name = location.uri.rpartition("/")
    return open_remote_objects(parse_location(directory, world), world), name


def _open_remote(found: Found, world: World) -> BinaryIO:
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
    """An object of a bucket as the file that Python and Arrow expect."""

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
