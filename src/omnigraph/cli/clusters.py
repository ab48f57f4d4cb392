"""Finding a graph of a cluster by what the cluster has applied: `__cluster/state.json` below its storage root."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from omnigraph.cli.settings import expanded, settings
from omnigraph.errors import InvalidInput, ObjectNotFound

STATE = "__cluster/state.json"


def graph_in_cluster(cluster: str, graph: str | None) -> str:
    """The URI of a cluster's graph. Without an id, that of the only one."""
    root = _storage_root(settings().clusters.get(cluster, cluster))
    applied = _applied_graphs(root)
    if graph is None and len(applied) == 1:
        graph = applied[0]
    if graph is None or graph not in applied:
        known = ", ".join(applied) or "none"
        problem = "name one with --graph" if graph is None else f"it has no graph {graph!r}"
        raise InvalidInput(f"cluster {cluster}: {problem}; its graphs: {known}.")
    return f"{root.rstrip('/')}/graphs/{graph}.omni"


def is_cluster_member(uri: str) -> bool:
    """Whether a URI is the place of a graph that a cluster looks after: `<root>/graphs/<id>.omni`."""
    root, _, name = uri.rstrip("/").rpartition("/graphs/")
    if not root or "/" in name or not name.endswith(".omni"):
        return False
    return _state(root) is not None


def _storage_root(place: str) -> str:
    """A directory with a `cluster.yaml` says where it stores; anything else is the storage root itself."""
    if "://" in place:
        return place
    config = Path(expanded(place)) / "cluster.yaml"
    if not config.is_file():
        return place
    import yaml

    try:
        held = yaml.safe_load(config.read_text("utf-8"))
    except (yaml.YAMLError, OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{config} cannot be read: {error}") from error
    storage = held.get("storage") if isinstance(held, dict) else None
    return str(storage) if storage else place


def _applied_graphs(root: str) -> list[str]:
    state = _state(root)
    if state is None:
        raise InvalidInput(f"{root} has no {STATE}: no cluster was applied there.")
    resources = state.get("applied_revision", {}).get("resources", {})
    return sorted(name.removeprefix("graph.") for name in resources if name.startswith("graph."))


def _state(root: str) -> dict[str, Any] | None:
    from omnigraph.store.location import parse_location
    from omnigraph.store.objects import open_control_store

    try:
        held = json.loads(open_control_store(parse_location(root)).read(STATE))
    except ObjectNotFound:
        return None
    except ValueError as error:
        raise InvalidInput(f"{root}/{STATE} is not JSON: {error}") from error
    return held if isinstance(held, dict) else {}
