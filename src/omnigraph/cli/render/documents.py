"""Renders steps of a migration plan as sentences, `add property Person.city: String?`, and JSON that commands share.

Names and omitted fields of the JSON are those that programs of other releases read.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from omnigraph.cli.frame.arguments import conflict_json
from omnigraph.manifest.layout import MAIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.errors import HeadMismatch, MergeConflicts
    from omnigraph.language.evolution import MigrationPlan
    from omnigraph.language.evolution.steps import Step
    from omnigraph.manifest.rows import GraphCommit

# These name the subject of a step; the other details are its change.
_SUBJECT = ("type_kind", "type_name", "name", "property_name", "entity")


def plan_lines(plan: MigrationPlan) -> Iterator[str]:
    """Whether the plan can be carried out, and its steps."""
    yield f"supported: {'yes' if plan.supported else 'no'}"
    if not plan.steps:
        yield "no schema changes"
    for step in plan.steps:
        yield f"- {_sentence(step)}"
        if "way_out" in step.details:
            yield f"  way out: {step.details['way_out']}"


def _sentence(step: Step) -> str:
    if step.kind == "unsupported_change":
        return f"refused: {step.details['entity']}: {step.details['reason']}"
    code = f" [{step.code}]" if step.code else ""
    return f"{step.kind.replace('_', ' ')} {_subject(step)}{_change(step)}{code}"


def _subject(step: Step) -> str:
    details: Any = step.details
    type_name = details.get("type_name") or details.get("name")
    if type_name is None:
        return str(details["type_kind"])
    if "property_name" in details:
        return f"{type_name}.{details['property_name']}"
    return str(type_name) if step.kind == "rename_property" else f"{details['type_kind']} {type_name}"


def _change(step: Step) -> str:
    details = {name: value for name, value in step.details.items() if name not in _SUBJECT}
    if set(details) == {"from", "to"}:
        joint = "." if step.kind == "rename_property" else " " if step.kind == "rename_type" else ": "
        return f"{joint}{_value(details['from'])} → {_value(details['to'])}"
    if set(details) == {"mode"}:
        return f" ({details['mode']})"
    values = [f"default {_value(value)}" if name == "default" else _value(value) for name, value in details.items()]
    return f": {', '.join(values)}" if values else ""


def _value(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and "scalar" in value:
        return _property_type(value)
    return json.dumps(value, ensure_ascii=False)


def _property_type(held: dict[str, Any]) -> str:
    bare = f"enum({', '.join(held['enum_values'])})" if held.get("enum_values") else str(held["scalar"])
    listed = f"[{bare}]" if held.get("list") else bare
    return f"{listed}?" if held.get("nullable") else listed


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
        created_at=commit.created_us,
    )


def precondition_json(error: HeadMismatch) -> dict[str, Any]:
    """The refusal of a conditional write: what was required, and what was found."""
    return {"error": error.message, "precondition_failure": present(expected=error.expected or "", actual=error.actual)}


def conflicts_json(error: MergeConflicts) -> dict[str, Any]:
    """The refusal of a merge."""
    return {"error": error.message, "code": "conflict", "merge_conflicts": list(map(conflict_json, error.conflicts))}


def kind_and_name(type_key: str) -> tuple[str, str]:
    """`node:Person` as `node` and `Person`."""
    kind, _, name = type_key.partition(":")
    return kind, name
