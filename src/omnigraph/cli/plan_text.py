"""The steps of a migration plan as sentences: `add property Person.city: String?`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.language.schema import MigrationPlan
    from omnigraph.language.schema.evolution.steps import Step

# These name what a step is about; the other details tell what happens to it.
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
    told: Any = step.details
    type_name = told.get("type_name") or told.get("name")
    if type_name is None:
        return str(told["type_kind"])
    if "property_name" in told:
        return f"{type_name}.{told['property_name']}"
    return str(type_name) if step.kind == "rename_property" else f"{told['type_kind']} {type_name}"


def _change(step: Step) -> str:
    told = {name: value for name, value in step.details.items() if name not in _SUBJECT}
    if set(told) == {"from", "to"}:
        joint = "." if step.kind == "rename_property" else " " if step.kind == "rename_type" else ": "
        return f"{joint}{_value(told['from'])} → {_value(told['to'])}"
    if set(told) == {"mode"}:
        return f" ({told['mode']})"
    shown = [f"default {_value(value)}" if name == "default" else _value(value) for name, value in told.items()]
    return f": {', '.join(shown)}" if shown else ""


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
