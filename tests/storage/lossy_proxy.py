"""A proxy before the S3 server that lets a request through and loses the answer."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Literal

from servers.counting_proxy import CountingProxy, _Handler

if TYPE_CHECKING:
    import http.client

Loss = Literal["cut", "500"]


class LossyProxy(CountingProxy):
    """Loses the answers to the next conditional writes of a version file, one for each entry of `losses`.

    While `dead`, every connection is cut without asking the server anything.
    """

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self.losses: list[Loss] = []
        self.dead_after_losses = False
        self.dead = False
        self._server.RequestHandlerClass = _LossyHandler

    def __enter__(self) -> LossyProxy:
        self.start()
        return self


class _LossyHandler(_Handler):
    def relay(self) -> None:
        if self._proxy.dead:
            self._cut()
            return
        super().relay()

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = relay  # noqa: N815

    @property
    def _proxy(self) -> LossyProxy:
        assert isinstance(self.server.proxy, LossyProxy)
        return self.server.proxy

    def _answer(self, answer: http.client.HTTPResponse, data: bytes) -> None:
        proxy = self._proxy
        commits = self.command == "PUT" and ".manifest" in self.path and "If-None-Match" in self.headers
        if not commits or not proxy.losses:
            super()._answer(answer, data)
            return
        loss = proxy.losses.pop(0)
        proxy.dead = proxy.dead_after_losses and not proxy.losses
        if loss == "cut":
            self._cut()
            return
        self.send_response_only(500, "lost")
        self.send_header("Content-Length", "0")
        self.end_headers()
        self.wfile.flush()

    def _cut(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)
