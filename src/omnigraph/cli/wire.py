"""The JSON forms that several commands share. Names and omissions are those that programs of other releases read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph.manifest.layout import MAIN

if TYPE_CHECKING:
    from omnigraph.errors import HeadMismatch, MergeConflicts
    from omnigraph.manifest.rows import GraphCommit


def present(**fields: object) -> dict[str, Any]:
    """The fields that have a value, in the order given."""
    return {name: value for name, value in fields.items() if value is not None}


def commit_json(commit: GraphCommit) -> dict[str, Any]:
    """A commit. The branch is left out for main."""
    return present(
        graph_commit_id=commit.id,
        graph_branch=None if commit.branch == MAIN else commit.branch,
        graph_manifest_version=commit.manifest_version,
        parent_commit_id=commit.parent,
        merged_parent_commit_id=commit.merged_parent,
        actor_id=commit.actor,
        created_at=commit.created_at,
    )


def lost_precondition_json(error: HeadMismatch) -> dict[str, Any]:
    """The refusal of a conditional write: what was required, and what was found."""
    return {"error": error.message, "precondition_failure": present(expected=error.expected or "", actual=error.actual)}


def conflicts_json(error: MergeConflicts) -> dict[str, Any]:
    """The refusal of a merge."""
    conflicts = [
        {"kind": each.kind, "type_key": each.table_key, "id": each.row_id, "message": each.message}
        for each in error.conflicts
    ]
    return {"error": error.message, "code": "conflict", "merge_conflicts": conflicts}


def kind_and_name(type_key: str) -> tuple[str, str]:
    """`node:Person` as `node` and `Person`."""
    kind, _, name = type_key.partition(":")
    return kind, name
