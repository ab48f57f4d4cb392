"""A real HTTP server on this machine that answers as embedding services do, and can be told to misbehave."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from omnigraph.embeddings.providers import mock_vector

if TYPE_CHECKING:
    from collections.abc import Iterator


class Service(ThreadingHTTPServer):
    """What it was asked, and what it is to answer before it behaves: statuses, or a text as it is."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.asked: list[tuple[str, dict[str, str], Any]] = []
        self.troubles: list[int | str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Answer(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, {key.lower(): value for key, value in self.headers.items()}, body))
        trouble = self.server.troubles.pop(0) if self.server.troubles else None
        if isinstance(trouble, int):
            return self._send(trouble, "out of order")
        return self._send(200, trouble if isinstance(trouble, str) else json.dumps(_vectors(self.path, body)))

    def _send(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


def _vectors(path: str, body: dict[str, Any]) -> dict[str, Any]:
    if path.endswith(":embedContent"):
        return {"embedding": _gemini(body)}
    if path.endswith(":batchEmbedContents"):
        return {"embeddings": [_gemini(each) for each in body["requests"]]}
    made = [mock_vector(text, body["dimensions"]) for text in body["input"]]
    # Longer than 1, and not in order: both are the reader's to put right.
    data = [{"index": at, "embedding": [3 * each for each in vector]} for at, vector in enumerate(made)]
    return {"data": data[::-1]}


def _gemini(request: dict[str, Any]) -> dict[str, Any]:
    return {"values": mock_vector(request["content"]["parts"][0]["text"], request["outputDimensionality"])}


@contextmanager
def serving() -> Iterator[Service]:
    service = Service()
    thread = threading.Thread(target=service.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        service.shutdown()
        service.server_close()
        thread.join()
