"""Translates Lance's exceptions, a few classes with long texts, into the errors of `omnigraph.errors`.

tests/conformance pins the texts, so an upgrade of pylance that changes one is noticed before it is shipped.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING

from lance.commit import CommitConflictError

from omnigraph.errors import (
    CommitConflict,
    CommitOutcomeUnknown,
    CommitRejected,
    InvalidInput,
    NotFound,
    ObjectExists,
    OmniGraphError,
    StoreError,
    StorePermissionDenied,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


class Trouble(Enum):
    """What an exception from Lance means for the caller."""

    RETRYABLE = "retryable"  # another commit won; read again and retry
    INCOMPATIBLE = "incompatible"  # the table changed incompatibly; the staged work is void
    CONTENTION = "contention"  # Lance's own retry loop gave up
    UNKNOWN_OUTCOME = "unknown outcome"
    EXISTS = "exists"
    NOT_FOUND = "not found"
    DUPLICATE_KEY = "duplicate key"
    PERMISSION = "permission"
    UNREACHABLE = "unreachable"
    INVALID = "invalid"  # the request or its data is invalid for this table
    OTHER = "other"


_BY_TEXT: tuple[tuple[Trouble, tuple[str, ...]], ...] = (
    (Trouble.UNKNOWN_OUTCOME, ("is unknown: the commit may or may not",)),
    (Trouble.INCOMPATIBLE, ("Incompatible transaction",)),
    (Trouble.RETRYABLE, ("Retryable commit conflict", "Commit conflict for version")),
    (Trouble.CONTENTION, ("Too many concurrent writers",)),
    (Trouble.DUPLICATE_KEY, ("Merge insert failed: found matching row", "Ambiguous merge inserts")),
    (Trouble.EXISTS, ("Dataset already exists", "Ref conflict error", "already exists, please specify a different")),
    (
        Trouble.PERMISSION,
        (
            "AccessDenied",
            "Access Denied",
            "PermissionDenied",
            "Permission denied",
            "403 Forbidden",
            "SignatureDoesNotMatch",
            "InvalidAccessKeyId",
            "Unauthenticated",
        ),
    ),
    (
        Trouble.UNREACHABLE,
        (
            "NoSuchBucket",
            "error sending request",
            "Server returned non-2xx status code: 5",
            "Connection refused",
            "connection closed",
            "timed out",
            "dns error",
        ),
    ),
    (
        Trouble.NOT_FOUND,
        ("was not found", "Not found", "NotFound", "not found", "Ref not found", "No such file", "Not a directory"),
    ),
    (Trouble.INVALID, ("Invalid user input", "Append with different schema", "KMeans cannot train")),
)


def classify(error: BaseException, *, path: str = "") -> Trouble:
    """Classify an exception of Lance by its text. `path` is a path that a user chose: it is ignored in the text."""
    # As whole words: a graph called `g` must not remove the letter from `error sending request`.
    text = re.sub(rf"(?<!\w){re.escape(path)}(?!\w)", "", str(error)) if path else str(error)
    if isinstance(error, CommitConflictError) and "is unknown" not in text:
        return Trouble.RETRYABLE if error.retryable else Trouble.INCOMPATIBLE
    for trouble, marks in _BY_TEXT:
        if any(mark in text for mark in marks):
            return trouble
    return Trouble.OTHER


def translate(error: BaseException, what: str, *, path: str = "") -> OmniGraphError:
    """The corresponding error of `omnigraph.errors`, with `what` as its subject."""
    text = f"{what}: {_first_line(error)}"
    match classify(error, path=path):
        case Trouble.RETRYABLE | Trouble.CONTENTION:
            return CommitConflict(text)
        case Trouble.INCOMPATIBLE:
            return CommitRejected(text)
        case Trouble.UNKNOWN_OUTCOME:
            return CommitOutcomeUnknown(text)
        case Trouble.EXISTS:
            return ObjectExists(text)
        case Trouble.DUPLICATE_KEY | Trouble.INVALID:
            return InvalidInput(text)
        case Trouble.NOT_FOUND:
            return NotFound(text)
        case Trouble.PERMISSION:
            return StorePermissionDenied(f"{text}. Check the credentials and the file modes.")
        case Trouble.UNREACHABLE:
            return StoreUnavailable(f"{text}. Check the endpoint, the bucket and the network.")
        case Trouble.OTHER:
            return StoreError(text)


@contextmanager
def lance_errors(what: str) -> Iterator[None]:
    """Translate whatever Lance raises inside the block into one of our errors about `what`."""
    try:
        yield
    except OmniGraphError:
        raise
    except (OSError, ValueError, RuntimeError) as error:
        raise translate(error, what) from error


def _first_line(error: BaseException) -> str:
    """The message without the location in the Rust source that Lance appends."""
    text = str(error).strip().partition("\n")[0]
    return text.partition(", /")[0].partition(", location: ")[0].partition(" rust/")[0] or type(error).__name__
