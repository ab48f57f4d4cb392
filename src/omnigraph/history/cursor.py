"""Encodes positions in the change feed as opaque, checksummed text, valid for one branch of one graph."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from omnigraph.errors import ChangeCursorRejected

LONGEST = 4_096
_VERSION = 1
_CHECK_BYTES = 8


@dataclass(frozen=True)
class Position:
    """The position after all changes of the commit `after` (None: before the first commit).

    `inside`: also after those changes of the next commit that come up to this table and id. `witness` identifies the
    incarnation of the branch, so that a cursor of a deleted branch is not taken for one of its successor.
    """

    graph: str
    branch: str
    witness: str | None
    after: str | None
    inside: tuple[str, str] | None = None

    def encode(self) -> str:
        """The cursor text."""
        fields = [_VERSION, self.graph, self.branch, self.witness, self.after, self.inside]
        data = json.dumps(fields, separators=(",", ":")).encode()
        return urlsafe_b64encode(data + _check(data)).decode().rstrip("=")

    def require(self, graph: str, branch: str, incarnation: str | None) -> None:
        """Raise unless it is a position on this incarnation of this branch."""
        if self.graph != graph:
            raise ChangeCursorRejected("it is a place in another graph. Take a baseline of this one.")
        if self.branch != branch:
            raise ChangeCursorRejected(f"it is a place on branch {self.branch!r}, not on {branch!r}.")
        if self.witness != witness_of(incarnation):
            raise ChangeCursorRejected(
                f"branch {branch!r} was deleted and made anew since. Take a baseline and go on from its cursor."
            )


def decode(text: str) -> Position:
    """The position that a cursor text encodes, or `ChangeCursorRejected`."""
    if len(text) > LONGEST:
        raise ChangeCursorRejected(f"it is longer than {LONGEST} characters.")
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        data, check = raw[:-_CHECK_BYTES], raw[-_CHECK_BYTES:]
        if not data or check != _check(data):
            raise ValueError("its check does not fit")
        return _position(json.loads(data))
    except (ValueError, TypeError) as error:
        raise ChangeCursorRejected(f"it is damaged, or no cursor at all ({error}). Use one as it was given.") from error


def witness_of(incarnation: str | None) -> str | None:
    """A short hash that identifies the incarnation of a branch; None for main."""
    return None if incarnation is None else sha256(incarnation.encode()).hexdigest()[:16]


def _position(fields: list[Any]) -> Position:
    version, graph, branch, witness, after, inside = fields
    if version != _VERSION:
        raise ValueError(f"it is of version {version}")
    return Position(graph, branch, witness, after, None if inside is None else (inside[0], inside[1]))


def _check(data: bytes) -> bytes:
    return sha256(b"omnigraph/changes/1\0" + data).digest()[:_CHECK_BYTES]
