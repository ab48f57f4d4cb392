"""The tree of errors: drawn as it is, with codes that never change, and able to cross a process boundary."""

from __future__ import annotations

import ast
import copy
import inspect
import pickle
import re

import pytest

import omnigraph.errors
from omnigraph.errors import Diagnostic, OmniGraphError
from omnigraph.errors.commits import Conflict
from source import modules

# A code that programs may have written down. Add to this list; never change or remove an entry.
CODES = {
    "AlreadyInitialized": "already_initialized",
    "BranchError": "branch",
    "BranchExists": "branch_exists",
    "BranchInUse": "branch_in_use",
    "BranchNotFound": "branch_not_found",
    "BranchReplaced": "branch_replaced",
    "CardinalityViolation": "cardinality_violation",
    "ChangeCursorRejected": "change_cursor_rejected",
    "ChangeFeedGap": "change_feed_gap",
    "CommitConflict": "conflict",
    "CommitFailed": "commit_failed",
    "CommitNotDone": "not_done",
    "CommitOutcomeUnknown": "outcome_unknown",
    "CommitRejected": "rejected",
    "ConstraintViolation": "constraint",
    "Contention": "contention",
    "CorruptStamp": "corrupt_stamp",
    "DecidedOtherwise": "decided_otherwise",
    "EmbeddingFailed": "embedding_failed",
    "ExpectedVersionMismatch": "expected_version_mismatch",
    "FormatTooNew": "format_too_new",
    "FormatTooOld": "format_too_old",
    "GraphUnavailable": "graph_unavailable",
    "HeadMismatch": "head_mismatch",
    "HopCapReached": "hop_cap_reached",
    "IncompleteGraph": "incomplete_graph",
    "InitializationClaimed": "initialization_claimed",
    "InvalidBranchName": "invalid_branch_name",
    "InvalidInput": "invalid_input",
    "InvalidRecord": "invalid_record",
    "GraphClosed": "graph_closed",
    "InvalidUri": "invalid_uri",
    "KeyConflict": "key_conflict",
    "LeaseLost": "lease_lost",
    "ManifestCorrupt": "manifest_corrupt",
    "MergeConflicts": "merge_conflicts",
    "MigrationFailed": "migration_failed",
    "NotAGraph": "not_a_graph",
    "NotFound": "not_found",
    "ObjectChanged": "object_changed",
    "ObjectExists": "object_exists",
    "ObjectNotFound": "object_not_found",
    "OmniGraphError": "error",
    "OperationTakenOver": "operation_taken_over",
    "OrphanEdge": "orphan_edge",
    "PipelineError": "pipeline",
    "QueryCancelled": "query_cancelled",
    "QueryError": "query",
    "QueryStopped": "query_stopped",
    "QueryTimedOut": "query_timed_out",
    "QueryTooLarge": "query_too_large",
    "ReadSetChanged": "read_set_changed",
    "SchemaChanged": "schema_changed",
    "RecoveryRequired": "recovery_required",
    "ResourceLimitExceeded": "resource_limit",
    "RevertConflicts": "revert_conflicts",
    "SchemaChangeRefused": "schema_change_refused",
    "SchemaContractDrift": "schema_contract_drift",
    "SchemaError": "schema",
    "SparkUnavailable": "spark_unavailable",
    "StoreError": "store",
    "StorePermissionDenied": "store_permission_denied",
    "StoreUnavailable": "store_unavailable",
    "StoreUnsafe": "store_unsafe",
    "TableAhead": "table_ahead",
    "TagExists": "tag_exists",
    "TextError": "text",
    "UniqueViolation": "unique_violation",
    "ValueViolation": "value_violation",
    "VersionReclaimed": "version_reclaimed",
}
# The same call can succeed when it is simply made again.
RETRYABLE = {
    "CommitConflict",
    "Contention",
    "ExpectedVersionMismatch",
    "HeadMismatch",
    "InitializationClaimed",
    "ObjectChanged",
    "ReadSetChanged",
    "SchemaChanged",
    "StoreUnavailable",
    "CommitNotDone",
    "DecidedOtherwise",
    "LeaseLost",
    "OperationTakenOver",
    "TableAhead",
}
KINDS = {
    name: each
    for name, each in vars(omnigraph.errors).items()
    if isinstance(each, type) and issubclass(each, OmniGraphError)
}


def drawn_parents() -> dict[str, str]:
    """Child and parent, as the picture in the module's docstring has them."""
    parents: dict[str, str] = {}
    path: list[str] = []
    for line in (omnigraph.errors.__doc__ or "").splitlines():
        found = re.match(r"    ([│ ]*)(?:[├└]── )?([A-Z]\w+)", line)
        if found is None:
            continue
        drawn = line.index(found[2]) // 4 - 1
        path[drawn:] = [found[2]]
        if drawn:
            parents[found[2]] = path[drawn - 1]
    return parents


def test_the_picture_of_the_tree_is_the_tree() -> None:
    real = {name: each.__bases__[0].__name__ for name, each in KINDS.items() if each is not OmniGraphError}
    assert drawn_parents() == real


def test_codes_are_what_they_always_were() -> None:
    assert {name: each.code for name, each in KINDS.items()} == CODES


def test_codes_are_unique_and_each_class_has_its_own() -> None:
    assert len({each.code for each in KINDS.values()}) == len(KINDS)
    assert [name for name, each in KINDS.items() if "code" not in vars(each)] == []


def test_what_can_be_retried_is_known() -> None:
    assert {name for name, each in KINDS.items() if each.retryable} == RETRYABLE


def test_every_error_says_what_it_is() -> None:
    assert [name for name, each in KINDS.items() if not vars(each).get("__doc__")] == []


def test_all_errors_stand_in_one_package() -> None:
    strays = [
        f"{file}: {node.name}"
        for file, tree in modules().items()
        if not file.startswith("errors/")
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base).split(".")[-1] in KINDS for base in node.bases)
    ]
    assert strays == []


EXAMPLES: dict[str, object] = {
    "str": "text",
    "str | None": "text",
    "int": 7,
    "int | None": 7,
    "float": 1.5,
    "object": ["anything"],
    "tuple[str, ...]": ("a", "b"),
    "tuple[str, ...] | None": ("a", "b"),
    "tuple[object, ...]": (1, None),
    "Sequence[str]": ("a", "b"),
    "tuple[Diagnostic, ...]": (Diagnostic("wrong", "T1", line=3),),
    "Sequence[Conflict]": (),
}


def example(kind: type[OmniGraphError]) -> OmniGraphError:
    """One error of a class, from the annotations of its constructor."""
    parameters = [each for each in inspect.signature(kind.__init__).parameters.values() if each.name != "self"]
    places = [EXAMPLES[str(each.annotation)] for each in parameters if each.kind is not each.KEYWORD_ONLY]
    named = {each.name: EXAMPLES[str(each.annotation)] for each in parameters if each.kind is each.KEYWORD_ONLY}
    return kind(*places, **named)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", KINDS)
def test_an_error_crosses_a_process_boundary_with_its_fields(name: str) -> None:
    error = example(KINDS[name])
    assert error.message
    for copied in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(copied) is KINDS[name]
        assert (str(copied), vars(copied)) == (str(error), vars(error))
        assert copied.args == (error.message,)


def test_a_merge_conflict_keeps_each_conflict() -> None:
    fields = dict.fromkeys(Conflict.__dataclass_fields__, "x")
    error = omnigraph.errors.MergeConflicts("review", "main", [Conflict(**fields)])  # type: ignore[arg-type]
    assert pickle.loads(pickle.dumps(error)).conflicts == error.conflicts


def test_every_field_of_a_constructor_can_be_read_from_the_error() -> None:
    missing = []
    for name, kind in KINDS.items():
        wanted = {
            each for each in inspect.signature(kind.__init__).parameters if each not in ("self", "what", "reason")
        }
        missing += [f"{name}.{each}" for each in wanted - set(vars(example(kind)))]
    assert missing == []
