"""Files found by path, directory or pattern, on disks and in buckets: one finder for both engines."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

from omnigraph.errors import InvalidInput, ObjectNotFound, StorePermissionDenied, StoreUnavailable
from omnigraph.store.location import OBJECT_STORES, parse_location
from omnigraph.store.remote_objects import open_remote_objects

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from omnigraph.world import World

# Hadoop's names for the same store.
ALIASES = {"s3a": "s3", "s3n": "s3"}
_WILD = re.compile(r"[*?\[]")


def found_at(source: str, world: World, storage_options: Mapping[str, str] | None = None) -> list[tuple[str, int]]:
    """The files that a path, `file://` URL, object URI, directory, prefix or pattern stands for, with their sizes.

    Local paths come out absolute. A directory or prefix stands for everything below it but names that begin with `.` or
    `_`, as in Spark. In a pattern, `*` and `?` stay within one name and `**` crosses directories.
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
    """Looks only into directories that the pattern can match."""
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


def bucket_of(uri: str) -> str:
    """The bucket of an object, as a URI."""
    scheme, _, rest = uri.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


@contextmanager
def store_errors(uri: str) -> Iterator[None]:
    """The store's errors as ours. Their text is left out, because it can carry credentials."""
    try:
        yield
    except FileNotFoundError:
        raise ObjectNotFound(f"{uri} is not there.", location=uri) from None
    except (PermissionDeniedError, UnauthenticatedError):
        raise StorePermissionDenied(f"{uri} may not be read: check the credentials.", location=uri) from None
    except BaseError as error:
        raise StoreUnavailable(f"{uri} cannot be read ({type(error).__name__}).", location=uri) from None
