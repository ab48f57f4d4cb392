"""A small S3 server in memory that breaks the rules on request: what a probe must find out.

It speaks enough of the protocol for control objects and for Lance tables: GET, HEAD, PUT, DELETE, ListObjectsV2 and
DeleteObjects, path style, signatures not checked. With `dialect="gs"` it speaks the XML form of Google Cloud Storage,
where conditions are about generations.

with CarelessS3({Fault.RACES}) as server:
    ...  # with server.environment
"""

from __future__ import annotations

import hashlib
import itertools
import json
import threading
import time
from dataclasses import dataclass, field
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

WHEN = "Sun, 15 Nov 2026 00:00:00 GMT"
WHEN_IN_LISTS = "2026-11-15T00:00:00.000Z"


class Fault(Enum):
    """One way to be careless."""

    IGNORES_IF_NONE_MATCH = auto()
    IGNORES_IF_MATCH = auto()
    RACES = auto()  # looks, waits a moment, writes: right one at a time, wrong at the same time
    REFUSES_EVERYTHING = auto()
    REFUSES_DELETES = auto()
    REFUSES_FRESH_TAGS = auto()  # If-Match never holds
    LACKS_IF_MATCH = auto()  # 501, as OpenStack Swift answers
    DROPS_ANSWERS = auto()  # does the write, then hangs up, every time
    DROPS_FIRST_ANSWERS = auto()  # the same, but only once for each key
    STALE_READS = auto()
    STALE_LISTS = auto()


@dataclass(frozen=True)
class Stored:
    """An object, the state before it, and its name for conditions."""

    data: bytes
    e_tag: str
    metadata: dict[str, str]
    before: Stored | None = None


@dataclass
class CarelessS3:
    """The server. `objects` is what is kept, by `bucket/key`; `requests` is every request line, in order."""

    faults: Iterable[Fault] = ()
    window_seconds: float = 0.02
    dialect: str = "s3"
    objects: dict[str, Stored] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.faults = frozenset(self.faults)
        self.lock = threading.Lock()
        self.dropped: set[str] = set()
        self.generations = itertools.count(1)
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.careless = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def environment(self) -> dict[str, str]:
        """What a client needs in its environment."""
        if self.dialect == "gs":
            # Without OAuth the client does not sign in anywhere, but it wants the fields of a key.
            key = {"disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
            text = json.dumps({**key, "gs_base_url": self.endpoint})
            return {
                "GOOGLE_SERVICE_ACCOUNT_KEY": text,
                "GOOGLE_BASE_URL": self.endpoint,
                "GOOGLE_ALLOW_HTTP": "true",
            }
        return {
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_ACCESS_KEY_ID": "anyone",
            "AWS_SECRET_ACCESS_KEY": "anything",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }

    def put(self, name: str, data: bytes, metadata: dict[str, str], *, absent: bool, matching: str | None) -> int:
        """Store under the conditions as far as they are kept; 200 or 412."""
        if Fault.RACES in self.faults:
            allowed = self._allows(name, absent=absent, matching=matching)
            time.sleep(self.window_seconds)  # noqa: TID251
            return self._keep(name, data, metadata) if allowed else 412
        with self.lock:
            allowed = self._allows(name, absent=absent, matching=matching)
            return self._keep(name, data, metadata) if allowed else 412

    def tag_of(self, data: bytes) -> str:
        """S3 names a state by its content, Google by a number that grows."""
        if self.dialect == "gs":
            return str(next(self.generations))
        return f'"{hashlib.md5(data).hexdigest()}"'

    def hangs_up_on(self, name: str) -> bool:
        if Fault.DROPS_ANSWERS in self.faults:
            return True
        if Fault.DROPS_FIRST_ANSWERS not in self.faults or name in self.dropped:
            return False
        self.dropped.add(name)
        return True

    def _allows(self, name: str, *, absent: bool, matching: str | None) -> bool:
        current = self.objects.get(name)
        if absent and Fault.IGNORES_IF_NONE_MATCH not in self.faults:
            return current is None
        if matching is None or Fault.IGNORES_IF_MATCH in self.faults:
            return True
        return current is not None and current.e_tag == matching and Fault.REFUSES_FRESH_TAGS not in self.faults

    def _keep(self, name: str, data: bytes, metadata: dict[str, str]) -> int:
        self.objects[name] = Stored(data, self.tag_of(data), metadata, before=self.objects.get(name))
        return 200

    def __enter__(self) -> CarelessS3:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256
    careless: CarelessS3


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    server: _Server

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing."""

    @property
    def careless(self) -> CarelessS3:
        return self.server.careless

    @property
    def name(self) -> str:
        return unquote(urlsplit(self.path).path).strip("/")

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.path).query, keep_blank_values=True)

    def serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.careless.requests.append(f"{self.command} {self.path}")
        deletes = self.command == "DELETE" or "delete" in self.query
        faults = frozenset(self.careless.faults)
        if Fault.REFUSES_EVERYTHING in faults or (deletes and Fault.REFUSES_DELETES in faults):
            self._refuse(403, "AccessDenied")
        elif self.command == "PUT":
            self._put(body)
        elif self.command == "POST":
            self._delete_many(body)
        elif self.command == "DELETE":
            self.careless.objects.pop(self.name, None)
            self._send(204, b"")
        elif "list-type" in self.query:
            self._list()
        else:
            self._get()

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = serve  # noqa: N815

    def _put(self, body: bytes) -> None:
        generation = self.headers.get("x-goog-if-generation-match")
        absent = self.headers.get("If-None-Match") == "*" or generation == "0"
        matching = self.headers.get("If-Match") or (generation if generation != "0" else None)
        if matching is not None and Fault.LACKS_IF_MATCH in frozenset(self.careless.faults):
            self._refuse(501, "NotImplemented")
            return
        prefixes = ("x-amz-meta-", "x-goog-meta-")
        metadata = {key: value for key, value in self.headers.items() if key.lower().startswith(prefixes)}
        status = self.careless.put(self.name, body, metadata, absent=absent, matching=matching)
        if status == 200 and self.careless.hangs_up_on(self.name):
            self.close_connection = True
        elif status == 200:
            self._send(200, b"", self._facts(self.careless.objects[self.name]))
        else:
            self._refuse(412, "PreconditionFailed")

    def _get(self) -> None:
        stored = self.careless.objects.get(self.name)
        if stored is not None and Fault.STALE_READS in frozenset(self.careless.faults):
            stored = stored.before or stored
        if stored is None:
            self._refuse(404, "NoSuchKey")
            return
        facts = {**self._facts(stored), **stored.metadata}
        wanted = self.headers.get("Range")
        if wanted is None:
            self._send(200, stored.data, facts)
            return
        start, end = self._range(wanted, len(stored.data))
        facts["Content-Range"] = f"bytes {start}-{end - 1}/{len(stored.data)}"
        self._send(206, stored.data[start:end], facts)

    def _range(self, wanted: str, size: int) -> tuple[int, int]:
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        if not first:
            return max(size - int(last), 0), size
        return int(first), min(int(last) + 1, size) if last else size

    def _list(self) -> None:
        wanted = f"{self.name}/{self.query.get('prefix', [''])[0]}"
        after = f"{self.name}/{self.query.get('start-after', [''])[0]}"
        delimiter = self.query.get("delimiter", [""])[0]
        names = sorted(each for each in list(self.careless.objects) if each.startswith(wanted) and each > after)
        if Fault.STALE_LISTS in frozenset(self.careless.faults):
            names = names[:-1]
        files, folders = _split(names, wanted, delimiter)
        skip = len(self.name) + 1
        lines = [self._listed(each, each[skip:]) for each in files]
        lines += [f"<CommonPrefixes><Prefix>{escape(each[skip:])}</Prefix></CommonPrefixes>" for each in folders]
        text = "<ListBucketResult><IsTruncated>false</IsTruncated>" + "".join(lines) + "</ListBucketResult>"
        self._send(200, text.encode(), {"Content-Type": "application/xml"})

    def _listed(self, name: str, key: str) -> str:
        stored = self.careless.objects[name]
        return (
            f"<Contents><Key>{escape(key)}</Key><LastModified>{WHEN_IN_LISTS}</LastModified>"
            f"<ETag>{escape(stored.e_tag)}</ETag><Size>{len(stored.data)}</Size></Contents>"
        )

    def _delete_many(self, body: bytes) -> None:
        keys = [part.partition("</Key>")[0] for part in body.decode().split("<Key>")[1:]]
        for key in keys:
            self.careless.objects.pop(f"{self.name}/{key}", None)
        done = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        self._send(200, f"<DeleteResult>{done}</DeleteResult>".encode(), {"Content-Type": "application/xml"})

    def _facts(self, stored: Stored) -> dict[str, str]:
        return {"ETag": stored.e_tag, "x-goog-generation": stored.e_tag, "Last-Modified": WHEN}

    def _refuse(self, status: int, code: str) -> None:
        text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>"
        self._send(status, text.encode(), {"Content-Type": "application/xml"})

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response_only(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()


def _split(names: list[str], prefix: str, delimiter: str) -> tuple[list[str], list[str]]:
    """The names right below a prefix, and the folders that the others are in."""
    if not delimiter:
        return names, []
    deeper = [each for each in names if delimiter in each[len(prefix) :]]
    folders = {each[: each.index(delimiter, len(prefix)) + 1] for each in deeper}
    return [each for each in names if each not in set(deeper)], sorted(folders)
