"""`Location`: where a graph is stored, a local directory or a prefix in a bucket.

Lance tables and control objects are both opened with a `Location`: tables take `child()` and `storage_options`, control
objects take the bucket and the prefix. The settings come from the environment and are resolved here once, so that both
use the same ones.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

from omnigraph.errors import InvalidUri
from omnigraph.storage.objects.settings import display_uri, storage_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.world import World


OBJECT_STORES = ("s3", "s3+ddb", "gs", "az")

# Lance parses these as parts of a URL, the control store as parts of a name: the two would write to different places.
_AMBIGUOUS = frozenset("%#?\\")


@dataclass(frozen=True)
class Location:
    """The root of one graph. `root` is its path inside the store, without leading or trailing slashes."""

    uri: str
    scheme: str
    bucket: str
    root: str
    query: str = ""
    storage_options: Mapping[str, str] | None = field(default=None, repr=False, hash=False)

    @property
    def is_local(self) -> bool:
        """Whether this is a directory of the local file system."""
        return self.scheme == "file"

    def child(self, relative: str) -> str:
        """The URI under which Lance opens a dataset below the root."""
        if self.is_local:
            return f"{self.uri}/{relative}"
        return f"{self.scheme}://{self.object_uri_path(relative)}{self.query}"

    def object_uri_path(self, relative: str) -> str:
        """Bucket, root and relative path, joined."""
        return "/".join(part for part in (self.bucket, self.root, relative) if part)

    def object_path(self, relative: str) -> str:
        """The path as manifests record it: a local path without its leading slash, or a key without the bucket."""
        return f"{self.root}/{relative}" if self.root else relative


def parse_location(
    uri: str | os.PathLike[str], world: World, storage_options: Mapping[str, str] | None = None
) -> Location:
    """Parse a URI or a path. `storage_options` are added to the settings of the environment and override them."""
    text = os.fspath(uri)
    if not _is_unicode(text):
        raise InvalidUri(text, "it is not valid Unicode")
    scheme, separator, _ = text.partition("://")
    if not separator:
        return _local(text, text, world)
    if scheme == "file":
        return _local(text, _path_of_file_url(text), world)
    if scheme in {"http", "https"}:
        raise InvalidUri(
            display_uri(text),
            "this is the address of a server. Connect to it with the client, or give the directory or the bucket "
            "(s3://bucket/prefix) that the graph is stored in. For an S3 endpoint set AWS_ENDPOINT_URL_S3.",
        )
    if scheme not in OBJECT_STORES:
        schemes = ", ".join(f"{each}://" for each in OBJECT_STORES)
        raise InvalidUri(display_uri(text), f"use a path, file:// or one of {schemes}")
    return _in_bucket(text, scheme, world, storage_options or {})


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _local(given: str, path: str, world: World) -> Location:
    if not path:
        raise InvalidUri(given, "the path is empty")
    if any(ord(character) < 32 for character in path):
        raise InvalidUri(given, "the path contains control characters")
    absolute = os.path.normpath(Path(_at_home(path, world)).absolute())
    if absolute == Path(absolute).anchor:
        raise InvalidUri(given, "this is the root of the file system; choose a directory below it")
    return Location(uri=absolute, scheme="file", bucket="", root=absolute.lstrip("/"))


def _at_home(path: str, world: World) -> str:
    """Expand a leading `~`, as a shell would have done."""
    home = world.environ.get("HOME", "")
    if home and (path == "~" or path.startswith("~/")):
        return home + path[1:]
    return path


def _path_of_file_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.netloc not in {"", "localhost"}:
        raise InvalidUri(display_uri(url), "a file:// URL names a path on this machine: write file:///path/to/graph")
    if parts.query or parts.fragment:
        raise InvalidUri(display_uri(url), "write ? as %3F and # as %23 in a file:// URL, or give the path itself")
    return unquote(parts.path)


def _in_bucket(uri: str, scheme: str, world: World, given: Mapping[str, str]) -> Location:
    rest = uri.partition("://")[2]
    path, mark, query = rest.partition("?")
    bucket, _, key = path.partition("/")
    root = key.rstrip("/")
    _check_bucket(uri, bucket)
    _check_root(uri, root)
    _check_query(uri, scheme, query)
    return Location(
        uri=f"{scheme}://" + "/".join(part for part in (bucket, root) if part) + mark + query,
        scheme=scheme,
        bucket=bucket,
        root=root,
        query=mark + query,
        storage_options=storage_settings(scheme, bucket, world.environ, given, uri=uri),
    )


def _check_bucket(uri: str, bucket: str) -> None:
    if "@" in bucket or ":" in bucket:
        raise InvalidUri(
            display_uri(uri),
            "credentials and ports do not belong in the URI; docs/object-stores.md lists the settings",
        )
    if not bucket:
        raise InvalidUri(display_uri(uri), "the name of the bucket is missing: scheme://bucket/prefix")


def _check_root(uri: str, root: str) -> None:
    if not root:
        return
    if any(part in {"", ".", ".."} for part in root.split("/")):
        raise InvalidUri(display_uri(uri), "the prefix has an empty part or a dot part")
    if any(ord(character) < 32 or character in _AMBIGUOUS for character in root):
        raise InvalidUri(display_uri(uri), "the prefix contains one of % # ? \\ or a control character; choose another")


def _check_query(uri: str, scheme: str, query: str) -> None:
    if scheme != "s3+ddb":
        if query:
            raise InvalidUri(display_uri(uri), "a query is meaningful only for s3+ddb://")
        return
    if list(parse_qs(query)) != ["ddbTableName"]:
        raise InvalidUri(display_uri(uri), "name the DynamoDB table: s3+ddb://bucket/prefix?ddbTableName=table")
