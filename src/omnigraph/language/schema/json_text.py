"""JSON exactly as the released program writes it: its number text, its escapes, two spaces or none."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from omnigraph.language.schema.canonical import float_text

Json = str | int | float | bool | None | Sequence["Json"] | Mapping[str, "Json"]


def compact(value: Json) -> str:
    """Without white space: the form that is hashed."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{compact(key)}:{compact(each)}" for key, each in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ",".join(map(compact, value)) + "]"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return float_text(value) if isinstance(value, float) else str(value)


def pretty(value: Json, indent: str = "") -> str:
    """With two spaces a level and no line feed at the end: the form of the files."""
    if isinstance(value, str) or not isinstance(value, Mapping | Sequence) or not value:
        return compact(value)
    inner = f"{indent}  "
    if isinstance(value, Mapping):
        lines = [f"{inner}{compact(key)}: {pretty(each, inner)}" for key, each in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    return "[\n" + ",\n".join(f"{inner}{pretty(each, inner)}" for each in value) + f"\n{indent}]"
