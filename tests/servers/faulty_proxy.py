"""A proxy before the S3 server that fails one durable request, or everything from that one on.

with FaultyProxy(server.endpoint, Disturbance("503", "after", at=3)) as proxy:
    ...  # with AWS_ENDPOINT_URL_S3=proxy.endpoint
"""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from servers.counting_proxy import CountingProxy, _Handler

if TYPE_CHECKING:
    import http.client

WireFault = Literal["503", "cut", "slow"]
# Whether the server does what it was asked for.
Moment = Literal["before", "after"]
SLOW_SECONDS = 2.5


@dataclass(frozen=True)
class Disturbance:
    """How, and from which durable request on, counted from 1. `lasting`: not only that one, and reads as well."""

    fault: WireFault
    moment: Moment
    at: int
    lasting: bool = False

    def __str__(self) -> str:
        return f"{self.fault} {self.moment} the effect{', from there on' if self.lasting else ''}"


class FaultyProxy(CountingProxy):
    """Counts requests that change something, and disturbs as it was told to."""

    def __init__(self, upstream: str, disturbance: Disturbance | None = None) -> None:
        super().__init__(upstream)
        self.disturbance = disturbance
        self.durable = 0
        self._lock = threading.Lock()
        self._server.RequestHandlerClass = _FaultyHandler

    @property
    def happened(self) -> bool:
        """Whether it has come to the request that is disturbed."""
        return self.disturbance is not None and self.durable >= self.disturbance.at

    def __enter__(self) -> FaultyProxy:
        self.start()
        return self

    def next_fault(self, method: str) -> Disturbance | None:
        """What happens to the request that comes now."""
        with self._lock:
            changes = method in ("PUT", "POST", "DELETE")
            self.durable += changes
            told = self.disturbance
            if told is None or self.durable < told.at:
                return None
            return told if told.lasting or (changes and self.durable == told.at) else None


class _FaultyHandler(_Handler):
    fault: Disturbance | None = None

    def relay(self) -> None:
        assert isinstance(self.server.proxy, FaultyProxy)
        self.fault = self.server.proxy.next_fault(self.command)
        if self.fault is None or self.fault.moment == "after":
            super().relay()
            return
        self._body()
        self._disturb(self.fault)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = relay  # noqa: N815

    def _answer(self, answer: http.client.HTTPResponse, data: bytes) -> None:
        fault = self.fault
        if fault is not None and fault.fault != "slow":
            self._disturb(fault)
            return
        if fault is not None:
            time.sleep(SLOW_SECONDS)  # noqa: TID251
        super()._answer(answer, data)

    def _disturb(self, fault: Disturbance) -> None:
        if fault.fault == "cut":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response_only(503, "Slow Down")
        self.send_header("Content-Length", "0")
        self.end_headers()
        self.wfile.flush()
