"""A reverse proxy that counts the requests that pass, by method, and can make each of them slow.

The Host header passes unchanged, because the signature of a request covers it.

with CountingProxy(server.endpoint, latency_seconds=0.02) as proxy:
    ...  # with AWS_ENDPOINT_URL_S3=proxy.endpoint
proxy.counts["PUT"]
"""

from __future__ import annotations

import http.client
import threading
import time
from collections import Counter
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from types import TracebackType

HOP_BY_HOP = frozenset({"connection", "transfer-encoding", "content-length", "expect", "keep-alive"})


@dataclass(frozen=True)
class Request:
    """One request that passed. A GET that lists is called LIST."""

    method: str
    path: str
    status: int
    sent: int
    received: int
    conditional: bool
    seconds: float


class CountingProxy:
    """Listens on a free port of loopback until it is closed."""

    def __init__(self, upstream: str, latency_seconds: float = 0.0) -> None:
        self.upstream = urlsplit(upstream).netloc
        self.latency_seconds = latency_seconds
        self.requests: list[Request] = []
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.proxy = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def counts(self) -> Counter[str]:
        """Requests by method since the last reset."""
        return Counter(each.method for each in self.requests)

    def reset(self) -> None:
        self.requests = []

    def start(self) -> CountingProxy:
        self._thread.start()
        return self

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def __enter__(self) -> CountingProxy:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256
    proxy: CountingProxy


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    server: _Server
    upstream: http.client.HTTPConnection | None = None

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing."""

    def finish(self) -> None:
        super().finish()
        if self.upstream is not None:
            self.upstream.close()

    def relay(self) -> None:
        started = time.monotonic()
        if self.server.proxy.latency_seconds:
            time.sleep(self.server.proxy.latency_seconds)  # noqa: TID251
        body = self._body()
        answer, data = self._ask(body)
        # Noted before it is answered, so that a client that has its answer finds it counted.
        self.server.proxy.requests.append(
            Request(
                method=self._kind(),
                path=self.path,
                status=answer.status,
                sent=len(body),
                received=len(data),
                conditional=bool(self.headers.get("If-None-Match") or self.headers.get("If-Match")),
                seconds=time.monotonic() - started,
            )
        )
        self._answer(answer, data)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = relay  # noqa: N815

    def _kind(self) -> str:
        lists = self.command == "GET" and "list-type" in parse_qs(urlsplit(self.path).query)
        return "LIST" if lists else self.command

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", "").lower():
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _ask(self, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
        """Pass the request on; once more over a new connection if the kept one has been closed."""
        try:
            return self._ask_once(body)
        except (http.client.RemoteDisconnected, ConnectionError):
            self.upstream = None
            return self._ask_once(body)

    def _ask_once(self, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
        if self.upstream is None:
            self.upstream = http.client.HTTPConnection(self.server.proxy.upstream, timeout=120)
        self.upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in HOP_BY_HOP:
                self.upstream.putheader(name, value)
        if body or self.command in {"PUT", "POST"}:
            self.upstream.putheader("Content-Length", str(len(body)))
        self.upstream.endheaders(body or None)
        answer = self.upstream.getresponse()
        return answer, answer.read()

    def _answer(self, answer: http.client.HTTPResponse, data: bytes) -> None:
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        if answer.status not in {204, 304}:
            length = answer.getheader("Content-Length") if self.command == "HEAD" else None
            self.send_header("Content-Length", length or str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
        self.wfile.flush()
