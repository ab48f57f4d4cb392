"""Moto's server, one request at a time: `moto_in_turn.py PORT`.

Moto answers each request in a thread of its own and looks whether an object is there before it puts it, without a lock:
on a busy machine a second writer came through in seven probes of twenty. Commits would be lost on such a store, so the
requests wait for each other here.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment


def main(port: int) -> None:
    moto = DomainDispatcherApplication(create_backend_app)
    turn = threading.Lock()

    def one_at_a_time(environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        with turn:
            return list(moto(environ, start_response))

    run_simple("127.0.0.1", port, one_at_a_time, threaded=True, request_handler=MotoRequestHandler)


if __name__ == "__main__":
    main(int(sys.argv[1]))
