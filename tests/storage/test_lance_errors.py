"""Whatever Lance raises becomes one of our errors, once, with the right hint and without its source paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest
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
from omnigraph.storage.lance.errors import Trouble, classify, lance_errors, translate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RUST = ", /home/runner/work/lance/lance/rust/lance/src/dataset.rs:1:2"
# The texts themselves are pinned against the real Lance by tests/conformance/test_error_texts.py.
TEXTS: list[tuple[str, Trouble, type[OmniGraphError]]] = [
    (
        "Retryable commit conflict for version 3: This Update transaction was preempted by concurrent Delete",
        Trouble.RETRYABLE,
        CommitConflict,
    ),
    (
        "Commit conflict for version 9: Failed to commit the transaction after 0 retries.",
        Trouble.RETRYABLE,
        CommitConflict,
    ),
    ("Too many concurrent writers. Attempted 0 retries.", Trouble.CONTENTION, CommitConflict),
    (
        "Incompatible transaction: This Append transaction is incompatible with concurrent transaction Overwrite",
        Trouble.INCOMPATIBLE,
        CommitRejected,
    ),
    (
        "Commit result for version 4 is unknown: the commit may or may not have been applied; check the table state",
        Trouble.UNKNOWN_OUTCOME,
        CommitOutcomeUnknown,
    ),
    ("Dataset already exists: /data/t", Trouble.EXISTS, ObjectExists),
    (
        'Ref conflict error: Branch feat is referenced by [("child", 6)]',
        Trouble.EXISTS,
        ObjectExists,
    ),
    (
        "LanceError(Index): Index name 'id_idx' already exists, please specify a different name or use replace=True",
        Trouble.EXISTS,
        ObjectExists,
    ),
    (
        "Execution error: Merge insert failed: found matching row with key values: id = 2",
        Trouble.DUPLICATE_KEY,
        InvalidInput,
    ),
    ("Ambiguous merge inserts are prohibited", Trouble.DUPLICATE_KEY, InvalidInput),
    ("Dataset at path data/t/_versions/7.manifest was not found", Trouble.NOT_FOUND, NotFound),
    ("Ref not found error: branch nobody", Trouble.NOT_FOUND, NotFound),
    ("The operation lacked the necessary privileges: AccessDenied", Trouble.PERMISSION, StorePermissionDenied),
    ("Unable to open file: Permission denied (os error 13)", Trouble.PERMISSION, StorePermissionDenied),
    ("SignatureDoesNotMatch", Trouble.PERMISSION, StorePermissionDenied),
    (
        "Generic S3 error: error sending request for url (http://127.0.0.1:9/bucket)",
        Trouble.UNREACHABLE,
        StoreUnavailable,
    ),
    ("NoSuchBucket: the specified bucket does not exist; object not found", Trouble.UNREACHABLE, StoreUnavailable),
    ("Invalid user input: Schema error: No field named x.", Trouble.INVALID, InvalidInput),
    ("Append with different schema: fields did not match", Trouble.INVALID, InvalidInput),
    ("Encountered corrupt file", Trouble.OTHER, StoreError),
]


@pytest.mark.parametrize(("text", "trouble", "kind"), TEXTS)
def test_a_text_is_sorted_and_translated(text: str, trouble: Trouble, kind: type[OmniGraphError]) -> None:
    error = OSError(text + RUST)
    assert classify(error) is trouble
    translated = translate(error, "doing a thing")
    assert type(translated) is kind
    assert translated.message.startswith("doing a thing: ")
    assert "runner" not in translated.message


def test_every_kind_of_trouble_has_an_example_here() -> None:
    assert {trouble for _, trouble, _ in TEXTS} == set(Trouble)


@pytest.mark.parametrize(("retryable", "kind"), [(True, CommitConflict), (False, CommitRejected)])
def test_a_typed_conflict_is_believed_whatever_it_says(retryable: bool, kind: type[OmniGraphError]) -> None:
    error = CommitConflictError("conflict, and a table was not found on the way", retryable=retryable)
    assert type(translate(error, "committing")) is kind


def test_a_typed_conflict_with_an_unknown_outcome_is_not_a_conflict() -> None:
    error = CommitConflictError("is unknown: the commit may or may not have been applied", retryable=True)
    assert type(translate(error, "committing")) is CommitOutcomeUnknown


def test_words_in_a_path_that_people_chose_say_nothing() -> None:
    error = OSError("corrupt file at data/not found/AccessDenied/graph/t")
    assert classify(error) is not Trouble.OTHER
    assert classify(error, path="data/not found/AccessDenied/graph") is Trouble.OTHER
    assert type(translate(error, "opening", path="data/not found/AccessDenied/graph")) is StoreError


def test_a_short_path_takes_no_letters_out_of_other_words() -> None:
    error = OSError("Error performing GET http://127.0.0.1:1/b?prefix=g%2F__manifest: error sending request")

    assert classify(error, path="g") is Trouble.UNREACHABLE


def test_the_original_stays_as_the_cause_and_other_exceptions_pass() -> None:
    with pytest.raises(NotFound) as caught, lance_errors("opening"):
        raise ValueError("Dataset at path x was not found")
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(NotFound, match=r"^ours$"), lance_errors("opening"):
        raise NotFound("ours")
    with pytest.raises(ZeroDivisionError), lance_errors("opening"):
        _ = 1 / 0
    with pytest.raises(KeyboardInterrupt), lance_errors("opening"):
        raise KeyboardInterrupt


def test_an_error_without_a_text_is_still_told() -> None:
    assert translate(OSError(), "opening").message == "opening: OSError"


def _missing(uri: str) -> object:
    return lance.dataset(uri + "-nowhere")


def _twice(uri: str) -> object:
    return lance.write_dataset(pa.table({"id": ["a"]}), uri, mode="create")


def _other_schema(uri: str) -> object:
    return lance.write_dataset(pa.table({"other": [1.5]}), uri, mode="append")


def _bad_filter(uri: str) -> object:
    return lance.dataset(uri).to_table(filter="nobody = 1")


def _matched(uri: str) -> object:
    builder = lance.dataset(uri).merge_insert("id").when_matched_fail().when_not_matched_insert_all()
    return builder.execute_uncommitted(pa.table({"id": ["a"]}))


def _no_branch(uri: str) -> object:
    return lance.dataset(uri).checkout_version(("nobody", None))


@pytest.mark.parametrize(
    ("action", "kind"),
    [
        (_missing, NotFound),
        (_twice, ObjectExists),
        (_other_schema, InvalidInput),
        (_bad_filter, InvalidInput),
        (_matched, InvalidInput),
        (_no_branch, NotFound),
    ],
)
def test_what_lance_really_raises(tmp_path: Path, action: Callable[[str], object], kind: type[OmniGraphError]) -> None:
    uri = str(tmp_path / "table")
    lance.write_dataset(pa.table({"id": ["a"]}), uri)
    with pytest.raises(OmniGraphError) as caught, lance_errors("acting"):
        action(uri)
    assert type(caught.value) is kind
