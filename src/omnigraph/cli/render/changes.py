"""Renders changes as JSON for programs and as text for people."""

from __future__ import annotations

import datetime as dt
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from omnigraph.cli.render.documents import present
from omnigraph.kernels.report import json_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from omnigraph.history.changes import Change, Image
    from omnigraph.manifest.rows import GraphCommit

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def cause_json(commit: GraphCommit) -> dict[str, Any]:
    """The commit that made a block of changes."""
    return present(
        graph_commit_id=commit.id,
        parent_commit_id=commit.parent,
        merged_parent_commit_id=commit.merged_parent,
        authored_branch=commit.branch,
        actor_id=commit.actor,
        authored_at=commit.created_us,
    )


def change_json(change: Change) -> dict[str, Any]:
    """One change."""
    return present(
        kind=change.kind,
        type={"id": _type_id(change.table_key), "name": change.type_name},
        id=change.id,
        op=change.op,
        before=_image_json(change.before),
        after=_image_json(change.after),
    )


def blocks_json(changes: Iterable[Change]) -> list[dict[str, Any]]:
    """Changes by the commits that made them."""
    blocks: list[dict[str, Any]] = []
    for change in changes:
        if not blocks or blocks[-1]["cause"]["graph_commit_id"] != change.commit.id:
            blocks.append({"cause": cause_json(change.commit), "changes": []})
        blocks[-1]["changes"].append(change_json(change))
    return blocks


def change_lines(change: Change) -> Iterator[str]:
    """One change for people: what happened, then each property that changed."""
    yield f"{change.op} {change.type_name} {change.id}"
    for name, old, new in differences(change):
        values = [
            _display_text(value) for value, side in ((old, change.before), (new, change.after)) if side is not None
        ]
        yield f"  {name}: {' → '.join(values)}"


def differences(change: Change) -> Iterator[tuple[str, Any, Any]]:
    """The properties and endpoints that differ, with their values before and after."""
    before, after = _values(change.before), _values(change.after)
    for name in {**before, **after}:
        old, new = before.get(name), after.get(name)
        if old != new:
            yield name, old, new


def when(commit: GraphCommit) -> str:
    """The time of a commit, in UTC."""
    return commit.created_at.strftime("%Y-%m-%d %H:%M:%S")


def _values(image: Image | None) -> dict[str, Any]:
    if image is None:
        return {}
    endpoints = {} if image.source is None else {"from": image.source, "to": image.target}
    return {**endpoints, **{name: json_value(value) for name, value in image.properties.items()}}


def _image_json(image: Image | None) -> dict[str, Any] | None:
    if image is None:
        return None
    endpoints = None if image.source is None else {"from": image.source, "to": image.target}
    properties = {name: json_value(value) for name, value in image.properties.items()}
    return present(properties=properties, endpoints=endpoints)


def _type_id(table_key: str) -> str:
    """An opaque name of a type, the same in every answer."""
    return urlsafe_b64encode(sha256(b"omnigraph/type\x1f" + table_key.encode()).digest()).decode().rstrip("=")


def _display_text(value: Any) -> str:
    from json import dumps

    return value if isinstance(value, str) else dumps(value, ensure_ascii=False)
