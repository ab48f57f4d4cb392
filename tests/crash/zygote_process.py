"""The other side of `zygote.py`: import everything, then fork a child for each job that comes in."""

from __future__ import annotations

import ctypes
import importlib
import os
import pickle
import pkgutil
import select
import signal
import socket
import sys
import traceback
from typing import TYPE_CHECKING, Any

from omnigraph import failpoints
from omnigraph.errors import OmniGraphError

if TYPE_CHECKING:
    from crash.zygote import Job

# A graph imports its parts when they are called; here that must be before the first fork, or every child does it.
_PARTS = (
    "ddl", "embeddings", "export", "expressions", "graph", "history", "language", "load", "maintenance", "manifest",
    "mutation", "query", "storage", "tasks", "transaction",
)  # fmt: skip
# Set in the environment of a job, it makes the child believe that it runs on another machine.
HOST = "OMNIGRAPH_TEST_HOST"
PR_SET_PDEATHSIG = 1
_stream: Any = None


def report(value: object) -> None:
    """Tell the test something while the job goes on."""
    pickle.dump(("report", value), _stream)
    _stream.flush()


def import_everything() -> None:
    for part in _PARTS:
        package = importlib.import_module(f"omnigraph.{part}")
        for each in pkgutil.walk_packages(package.__path__, f"omnigraph.{part}."):
            importlib.import_module(each.name)


def main(address: str) -> None:
    import_everything()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    print("ready", flush=True)
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _work(connection)
        connection.close()


def _work(connection: socket.socket) -> None:
    global _stream
    # Whoever imports this module by its name must find the stream of this process in it.
    sys.modules["crash.zygote_process"] = sys.modules["__main__"]
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _die_with_the_zygote()
    _stream = connection.makefile("rwb")
    job: Job = pickle.load(_stream)
    pickle.dump(os.getpid(), _stream)
    _stream.flush()
    try:
        answer = _do(job)
    except BaseException:  # noqa: BLE001
        answer = ("died", traceback.format_exc())
    pickle.dump(answer, _stream)
    _stream.flush()
    # Lance's threads take long to stop, and nothing is left to do for them.
    os._exit(0)


def _die_with_the_zygote() -> None:
    """A child that has stopped itself would otherwise outlive a test run that is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _do(job: Job) -> tuple[str, object]:
    os.environ.update(job.environment)  # noqa: TID251
    if HOST in job.environment:
        vars(socket)["gethostname"] = lambda: job.environment[HOST]
    module, _, name = job.work.partition(":")
    work = getattr(importlib.import_module(module), name)
    failpoints.arm(job.failpoints)
    try:
        return "done", work(*job.arguments)
    except (OmniGraphError, failpoints.InjectedFaultError) as error:
        return "raised", error


if __name__ == "__main__":
    main(sys.argv[1])
