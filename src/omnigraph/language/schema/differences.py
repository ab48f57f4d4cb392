"""What differs between two stored schemas, in words: the answer to "why was my graph refused?"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from omnigraph.language.schema.json_text import Json, compact

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST = 8
_LONGEST = 80


def differences(left: Json, right: Json, *, left_name: str, right_name: str) -> tuple[str, ...]:
    """The first differences, each with its place and both values."""
    found = [
        f"{path or 'the schema'}: {_shown(one)} in {left_name}, {_shown(other)} in {right_name}"
        for path, one, other in _walk("", left, right)
    ]
    rest = len(found) - _MOST
    return (*found[:_MOST], *([f"and {rest} more"] if rest > 0 else []))


_ABSENT = object()


def _walk(path: str, left: object, right: object) -> Iterator[tuple[str, object, object]]:
    if left == right and type(left) is type(right):
        return
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        yield from _walk_keys(f"{path}." if path else "", "", left, right)
    elif _named(left) and _named(right):
        yield from _walk_keys(f"{path}[", "]", _by_name(left), _by_name(right))
    else:
        yield path, left, right


def _walk_keys(
    before: str, after: str, left: Mapping[str, object], right: Mapping[str, object]
) -> Iterator[tuple[str, object, object]]:
    for key in dict.fromkeys((*left, *right)):
        yield from _walk(f"{before}{key}{after}", left.get(key, _ABSENT), right.get(key, _ABSENT))


def _named(value: object) -> bool:
    """A list of types or properties; annotations may share a name and are compared whole."""
    return isinstance(value, list) and all(isinstance(each, Mapping) and _has_id(each) for each in value)


def _has_id(each: Mapping[str, object]) -> bool:
    return "type_id" in each or "prop_id" in each


def _by_name(value: object) -> dict[str, object]:
    return {str(each["name"]): each for each in value} if isinstance(value, Sequence) else {}


def _shown(value: object) -> str:
    if value is _ABSENT:
        return "absent"
    if isinstance(value, Mapping) and _has_id(value):
        return "present"
    text = compact(value)  # type: ignore[arg-type]
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
