"""An AWS in memory (moto) with S3 and DynamoDB on one port of loopback, for `s3+ddb://`."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, cast

from servers.seaweed import free_ports

if TYPE_CHECKING:
    from types import TracebackType


class MotoAws:
    """The server as a process of its own, with one bucket and one table of the shape that Lance expects."""

    bucket = "lake"
    table = "commits"

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.endpoint = f"http://127.0.0.1:{free_ports(1)[0]}"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What a client needs in its environment. DynamoDB is reached through the endpoint of all services."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "anyone",
            "AWS_SECRET_ACCESS_KEY": "anything",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }

    def rows(self) -> list[dict[str, dict[str, str]]]:
        """Everything in the table."""
        return cast("list[dict[str, dict[str, str]]]", self._dynamo("Scan", {"TableName": self.table})["Items"])

    def __enter__(self) -> MotoAws:
        port = self.endpoint.rpartition(":")[2]
        serve = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("moto_in_turn.py")), port]
        with (self.directory / "moto.log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("until_parent_dies.py")), *serve],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
        try:
            self._wait_until_ready(time.monotonic() + 60)
            self._request("PUT", f"/{self.bucket}")
            self._create_table()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.process is not None
        self.process.communicate(timeout=30)

    def _wait_until_ready(self, deadline: float) -> None:
        while True:
            try:
                self._request("GET", "/moto-api/")
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)  # noqa: TID251
            else:
                return

    def _create_table(self) -> None:
        names = {"base_uri": ("S", "HASH"), "version": ("N", "RANGE")}
        self._dynamo(
            "CreateTable",
            {
                "TableName": self.table,
                "KeySchema": [{"AttributeName": name, "KeyType": role} for name, (_, role) in names.items()],
                "AttributeDefinitions": [
                    {"AttributeName": name, "AttributeType": kind} for name, (kind, _) in names.items()
                ],
                "BillingMode": "PAY_PER_REQUEST",
            },
        )

    def _dynamo(self, action: str, body: dict[str, object]) -> dict[str, object]:
        headers = {
            "X-Amz-Target": f"DynamoDB_20120810.{action}",
            "Content-Type": "application/x-amz-json-1.0",
            "Authorization": "AWS4-HMAC-SHA256 Credential=anyone/20260101/us-east-1/dynamodb/aws4_request",
        }
        return cast("dict[str, object]", json.loads(self._request("POST", "/", json.dumps(body).encode(), headers)))

    def _request(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> bytes:
        asked = urllib.request.Request(self.endpoint + path, data=body, headers=headers or {}, method=method)
        with urllib.request.urlopen(asked, timeout=10) as answer:
            return cast("bytes", answer.read())
