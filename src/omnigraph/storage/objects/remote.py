"""Control objects in a bucket: S3, Google Cloud Storage and Azure through obstore, on one code path.

Create-if-absent and replace-if-unchanged are conditional PUTs. When the acknowledgement of one is lost, the client
retries and is refused because of its own write. Each such write therefore carries an id in the object's metadata, and a
refusal counts only after checking that the existing object does not carry that id.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, cast

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    NotSupportedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import AzureStore, GCSStore, S3Store

from omnigraph.counters import count
from omnigraph.errors import (
    InvalidUri,
    ObjectChanged,
    ObjectExists,
    ObjectNotFound,
    StoreError,
    StorePermissionDenied,
    StoreUnavailable,
    StoreUnsafe,
)
from omnigraph.storage.objects.model import ObjectInfo, ObjectVersion
from omnigraph.storage.objects.settings import display_uri, secret_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from obstore import ObjectMeta, PutMode, UpdateVersion
    from obstore.store import AzureConfig, GCSConfig, RetryConfig, S3Config

    from omnigraph.storage.objects.location import Location
    from omnigraph.world import World

_WRITE_ID = "omnigraphwrite"
_TRIES = 4
_LANCE_ONLY = frozenset(
    {
        "client_max_retries",
        "client_retry_timeout",
        "download_retry_count",
        "dynamodb_endpoint",
        "expires_at_millis",
        "refresh_offset_millis",
    }
)
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([^<]+)</Code>")
_QUERY = re.compile(r"\?[^\s\"'>]*")
_NO_BUCKET = frozenset({"NoSuchBucket", "ContainerNotFound", "InvalidBucketName", "AllAccessDisabled"})


def open_remote_objects(location: Location, world: World) -> RemoteObjects:
    """A client for one bucket and prefix. It does not connect yet."""
    options = location.storage_options or {}
    secrets = secret_values(options)
    try:
        store = _client(location, options)
    except (BaseError, ValueError) as error:
        raise InvalidUri(display_uri(location.uri), _reason(str(error), secrets)) from None
    bulk = partial(_client, location, options, bulk=True)
    return RemoteObjects(store, bulk, f"{location.scheme}://{location.object_uri_path('')}", secrets, world)


def _client(location: Location, options: Mapping[str, str], *, bulk: bool = False) -> S3Store | GCSStore | AzureStore:
    config = {name: value for name, value in options.items() if name not in _LANCE_ONLY}
    prefix, retry = location.root or None, _retry(options)
    if location.scheme == "gs":
        return GCSStore(location.bucket, prefix=prefix, config=cast("GCSConfig", config), retry_config=retry)
    if location.scheme == "az":
        return AzureStore(location.bucket, prefix=prefix, config=cast("AzureConfig", config), retry_config=retry)
    # Every store supports the single-object DELETE; the bulk form hides refusals in a successful response.
    config["aws_disable_bulk_delete"] = "false" if bulk else "true"
    return S3Store(location.bucket, prefix=prefix, config=cast("S3Config", config), retry_config=retry)


def _retry(options: Mapping[str, str]) -> RetryConfig:
    """Outlast a restart of the server, but report within seconds that it is down."""
    return {
        "max_retries": int(options.get("client_max_retries", "8")),
        "retry_timeout": timedelta(seconds=int(options.get("client_retry_timeout", "30"))),
        "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=1), "base": 3},
    }


@dataclass(frozen=True)
class RemoteObjects:
    """Objects below one prefix of one bucket."""

    store: S3Store | GCSStore | AzureStore
    open_bulk: Callable[[], S3Store | GCSStore | AzureStore] = field(repr=False)
    root: str
    secrets: tuple[str, ...] = field(repr=False)
    world: World = field(repr=False)

    def read(self, path: str) -> tuple[bytes, ObjectVersion]:
        """The bytes and their tag."""
        with self._errors(path):
            found = obstore.get(self.store, path)
            return bytes(found.bytes()), _tag(found.meta)

    def write(self, path: str, data: bytes) -> ObjectVersion:
        """Write unconditionally."""
        with self._errors(path):
            return self._put(path, data, "overwrite", self._new_id())

    def create(self, path: str, data: bytes) -> ObjectVersion:
        """Write if the object does not exist."""
        return self._put_once(path, data, "create")

    def stage(self, path: str, data: bytes) -> None:
        """Write a file that nothing refers to yet."""
        self.write(path, data)

    def replace(self, path: str, data: bytes, unchanged: ObjectVersion) -> ObjectVersion:
        """Write if the object still has this tag."""
        try:
            return self._put_once(path, data, _update_of(unchanged))
        except ObjectNotFound as error:
            raise ObjectChanged(f"{error.location} was deleted since it was read.", location=error.location) from error

    def delete(self, path: str) -> None:
        """Delete; a missing object is fine."""
        try:
            with self._errors(path):
                obstore.delete(self.store, path)
        except ObjectNotFound:
            return

    def delete_all(self, paths: Sequence[str]) -> None:
        """Delete many in one request; one by one if the store does not support that."""
        try:
            with self._errors(paths[0]):
                obstore.delete(self._bulk, list(paths))
        except StoreError:
            for path in paths:
                self.delete(path)

    def delete_prefix(self, prefix: str) -> None:
        """Delete everything below a prefix."""
        paths = [each.path for each in self.list(prefix)]
        if not paths:
            return
        with self._errors(prefix):
            obstore.delete(self.store, paths)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Everything below a prefix."""
        with self._errors(prefix):
            for page in obstore.list(self.store, prefix or None, chunk_size=1_000):
                yield from (_info(meta) for meta in page)

    def remove_unfinished(self) -> None:
        """Nothing to do: an interrupted request leaves nothing behind."""

    def info(self, path: str) -> ObjectInfo:
        """The listing entry of one object."""
        with self._errors(path):
            return _info(obstore.head(self.store, path))

    def is_object(self, path: str) -> bool:
        """Whether an object has exactly this name."""
        try:
            self.info(path)
        except ObjectNotFound:
            return False
        return True

    def has_any(self, prefix: str) -> bool:
        """Whether anything is below a prefix."""
        return next(iter(self.list(prefix)), None) is not None

    @cached_property
    def _bulk(self) -> S3Store | GCSStore | AzureStore:
        """A client that deletes many objects per request, and may not report which of them it failed to delete."""
        return self.open_bulk()

    def _put(self, path: str, data: bytes, mode: PutMode, write_id: str) -> ObjectVersion:
        attributes = {_WRITE_ID: write_id}
        done = obstore.put(self.store, path, data, mode=mode, attributes=attributes, use_multipart=False)
        return ObjectVersion(done["e_tag"], done["version"])

    def _put_once(self, path: str, data: bytes, mode: PutMode) -> ObjectVersion:
        """A conditional write, retried under the same id while its outcome is unknown and the store answers."""
        write_id = self._new_id()
        for tries_left in reversed(range(_TRIES)):
            try:
                with self._errors(path):
                    return self._put(path, data, mode, write_id)
            except (ObjectExists, ObjectChanged, StoreUnavailable) as error:
                tag = self._tag_if_ours(path, write_id)
                if tag is not None:
                    return tag
                if not tries_left or not isinstance(error, StoreUnavailable):
                    raise
        raise AssertionError("the last try returns or raises")

    def _tag_if_ours(self, path: str, write_id: str) -> ObjectVersion | None:
        """The tag of the object at `path` if this write created it."""
        count("object_reads", path)
        try:
            with self._errors(path):
                found = obstore.get(self.store, path)
        except ObjectNotFound:
            return None
        return _tag(found.meta) if found.attributes.get(_WRITE_ID) == write_id else None

    def _new_id(self) -> str:
        return self.world.ulid()

    @contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        try:
            yield
        except (BaseError, FileNotFoundError) as error:
            # The text of the cause carries URLs and headers, which can carry credentials.
            raise _translated(error, f"{self.root}/{path}", self.secrets) from None


def _translated(error: Exception, where: str, secrets: tuple[str, ...]) -> StoreError:
    text = str(error)
    if isinstance(error, AlreadyExistsError):
        return ObjectExists(f"{where} is there already.", location=where)
    if isinstance(error, PreconditionError):
        return ObjectChanged(f"{where} changed since it was read: read it again, then decide.", location=where)
    if _first(_CODE, text) in _NO_BUCKET:
        return StoreUnavailable(f"{where}: the bucket is not there. Create it, or correct the URI.", location=where)
    if isinstance(error, FileNotFoundError):
        return ObjectNotFound(f"{where} is not there.", location=where)
    reason = _reason(text, secrets)
    if isinstance(error, PermissionDeniedError | UnauthenticatedError) or _first(_STATUS, text) in {"401", "403"}:
        return StorePermissionDenied(
            f"{where}: the store refused ({reason}). Check the credentials and what they are allowed to do.",
            location=where,
        )
    if isinstance(error, NotSupportedError) or _first(_STATUS, text) == "501":
        return StoreUnsafe(f"{where}: the store cannot write conditionally ({reason}).", location=where)
    return StoreUnavailable(
        f"{where}: no usable answer from the store ({reason}). Check the endpoint, the network and the credentials. "
        "If this was a write, it may have been applied.",
        location=where,
    )


def _reason(text: str, secrets: tuple[str, ...]) -> str:
    """One short line that gives the reason, without anything that could be a credential."""
    code, status = _first(_CODE, text), _first(_STATUS, text)
    if code or status:
        return " ".join(part for part in (code, status and f"HTTP {status}") if part)
    line = _QUERY.sub("", text.split("\n", 1)[0])
    for secret in secrets:
        line = line.replace(secret, "***")
    return line[:300]


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found.group(1) if found else ""


def _tag(meta: ObjectMeta) -> ObjectVersion:
    return ObjectVersion(meta["e_tag"], meta["version"])


def _update_of(tag: ObjectVersion) -> UpdateVersion:
    mode: UpdateVersion = {}
    if tag.e_tag is not None:
        mode["e_tag"] = tag.e_tag
    if tag.version is not None:
        mode["version"] = tag.version
    return mode


def _info(meta: ObjectMeta) -> ObjectInfo:
    modified = int(meta["last_modified"].timestamp() * 1_000_000)
    return ObjectInfo(meta["path"], meta["size"], modified, meta["e_tag"], modified)
