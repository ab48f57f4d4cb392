"""Determines the graph of a command: a URI or flag, else a profile, else the defaults of the configuration.

A graph of a cluster is found by what the cluster has applied: `__cluster/state.json` below its storage root. The module
also asks for confirmation before something that is not on this machine is destroyed.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from omnigraph.cli.frame.capabilities import applies, capability, echoes_its_target
from omnigraph.cli.frame.config import active_profile, expanded, home, settings
from omnigraph.cli.frame.options import Given, current, given, label_of
from omnigraph.cli.frame.output import note
from omnigraph.errors import InvalidInput, ObjectNotFound

if TYPE_CHECKING:
    from omnigraph.graph.graph import Graph

STATE = "__cluster/state.json"


def graph_in_cluster(cluster: str, graph: str | None) -> str:
    """The URI of a cluster's graph. Without an id, that of the only one."""
    root = _storage_root(settings().clusters.get(cluster, cluster))
    applied = _applied_graphs(root)
    if graph is None and len(applied) == 1:
        graph = applied[0]
    if graph is None or graph not in applied:
        names = ", ".join(applied) or "none"
        problem = "name one with --graph" if graph is None else f"it has no graph {graph!r}"
        raise InvalidInput(f"cluster {cluster}: {problem}; its graphs: {names}.")
    return f"{root.rstrip('/')}/graphs/{graph}.omni"


def is_cluster_member(uri: str) -> bool:
    """Whether a URI is the location of a graph of a cluster: `<root>/graphs/<id>.omni`."""
    root, _, name = uri.rstrip("/").rpartition("/graphs/")
    if not root or "/" in name or not name.endswith(".omni"):
        return False
    return _state(root) is not None


def _storage_root(address: str) -> str:
    """The storage root that `cluster.yaml` in a directory names; any other address is the storage root itself."""
    if "://" in address:
        return address
    config = Path(expanded(address)) / "cluster.yaml"
    if not config.is_file():
        return address
    import yaml

    try:
        loaded = yaml.safe_load(config.read_text("utf-8"))
    except (yaml.YAMLError, OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{config} cannot be read: {error}") from error
    storage = loaded.get("storage") if isinstance(loaded, dict) else None
    return str(storage) if storage else address


def _applied_graphs(root: str) -> list[str]:
    state = _state(root)
    if state is None:
        raise InvalidInput(f"{root} has no {STATE}: no cluster was applied there.")
    resources = state.get("applied_revision", {}).get("resources", {})
    return sorted(name.removeprefix("graph.") for name in resources if name.startswith("graph."))


def _state(root: str) -> dict[str, Any] | None:
    from omnigraph.storage.objects.location import parse_location
    from omnigraph.storage.objects.store import open_control_store
    from omnigraph.world import REAL

    try:
        loaded = json.loads(open_control_store(parse_location(root, REAL), REAL).read(STATE))
    except ObjectNotFound:
        return None
    except ValueError as error:
        raise InvalidInput(f"{root}/{STATE} is not JSON: {error}") from error
    return loaded if isinstance(loaded, dict) else {}


def require_consent(what: str, uri: str, *, is_local: bool, json: bool) -> None:
    """Return if it may be done: on a local graph, with `--yes`, or when a person at a terminal agrees."""
    if is_local or given().yes:
        return
    if json or not sys.stdin.isatty():
        raise InvalidInput(f"{what} destroys data of {uri}, which is not on this machine: pass --yes to consent.")
    answer = typer.prompt(
        f"{what} destroys data of {uri}. Continue? [yes/no]", default="no", show_default=False, err=True
    )
    if answer.strip().lower() not in {"yes", "y"}:
        raise InvalidInput(f"{what} was not confirmed; nothing was changed.")


NO_CLIENT = "This program works on stores directly and has no client for servers: give the graph's URI or --store."


@dataclass(frozen=True)
class GraphScope:
    """The graph that was addressed."""

    uri: str

    @property
    def is_local(self) -> bool:
        """Whether it is a directory of this machine."""
        return "://" not in self.uri or self.uri.startswith("file://")

    def open(self, *, read_only: bool = False) -> Graph:
        """The graph itself, with the author of this run."""
        from omnigraph.graph.open import open_graph

        return open_graph(self.uri, read_only=read_only, actor=None if read_only else actor())


def addressed(uri: str | None = None) -> GraphScope:
    """The graph that this run's command works on. Commands that say where they write say it here."""
    label = label_of(current())
    target = GraphScope(_resolve(uri, given(), label))
    if echoes_its_target(label) and not given().quiet:
        note(f"omnigraph {label} → {target.uri} (direct, {'local' if target.is_local else 'remote'})")
    return target


def actor() -> str | None:
    """The author of what this run writes: `--as`, else the configuration's."""
    return given().actor or settings().actor


def _resolve(uri: str | None, flags: Given, label: str) -> str:
    _refuse_several(uri, flags)
    if uri is not None or flags.store is not None:
        return _store(uri or flags.store or "", flags)
    if flags.server is not None:
        raise InvalidInput(_about_server(flags.server))
    if flags.cluster is not None:
        return _in_cluster(flags.cluster, flags.graph)
    if (name := active_profile(flags.profile)) is not None:
        return _of_profile(name, flags, label)
    return _by_default(flags, label)


def _refuse_several(uri: str | None, flags: Given) -> None:
    ways = {"a URI": uri, "--store": flags.store, "--server": flags.server, "--cluster": flags.cluster}
    used = [way for way, value in ways.items() if value is not None]
    if len(used) > 1:
        raise InvalidInput(f"{' and '.join(used)} are mutually exclusive: address one graph in one way.")


def _store(uri: str, flags: Given) -> str:
    if uri.startswith(("http://", "https://")):
        raise InvalidInput(f"{uri} is the address of a server, which --server is for. {NO_CLIENT}")
    if flags.graph is not None:
        raise InvalidInput(
            f"--graph picks one graph of a server or cluster, and {uri} is one graph already: leave it out."
        )
    return uri


def _about_server(server: str) -> str:
    if "://" not in server and server not in settings().servers:
        names = ", ".join(sorted(settings().servers)) or "none"
        return f"there is no server {server!r} in the configuration; known servers: {names}."
    return f"--server {server} addresses a graph behind a server. {NO_CLIENT}"


def _in_cluster(cluster: str, graph: str | None) -> str:

    return graph_in_cluster(cluster, graph)


def _of_profile(name: str, flags: Given, label: str) -> str:
    binding = settings().binding(name)
    if binding.kind == "store":
        return _store(binding.target, flags)
    if binding.kind == "server":
        way = (
            "is behind a server" if capability(label) == "any" else "is behind a server, and this command needs storage"
        )
        raise InvalidInput(f"the graph of profile {name!r} {way}. {NO_CLIENT}")
    if not applies("cluster", label):
        raise InvalidInput(
            f"profile {name!r} names a cluster, which `{label}` does not work on: give the graph's URI or --store."
        )
    return _in_cluster(binding.target, flags.graph or binding.default_graph)


def _by_default(flags: Given, label: str) -> str:
    defaults = settings().defaults
    if defaults.server is not None:
        raise InvalidInput(f"the default scope is server {defaults.server!r}. {NO_CLIENT}")
    if defaults.store is not None:
        return _store(defaults.store, flags)
    positional = "a URI, " if label not in {"query", "mutate"} else ""
    default = f"set defaults.store in {home()}/config.yaml"
    raise InvalidInput(f"no graph addressed: give {positional}--store URI or --profile NAME, or {default}.")
