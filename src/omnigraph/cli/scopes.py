"""Which graph a command works on: a URI or flag, else a profile, else the defaults of the configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.cli.capabilities import applies, capability, echoes_its_target
from omnigraph.cli.options import Given, current, given, label_of
from omnigraph.cli.output import note
from omnigraph.cli.settings import active_profile, home, settings
from omnigraph.errors import InvalidInput

if TYPE_CHECKING:
    from omnigraph.graph import Graph

NO_CLIENT = "This program works on stores directly and has no client for servers: give the graph's URI or --store."


@dataclass(frozen=True)
class Target:
    """The graph that was addressed."""

    uri: str

    @property
    def is_local(self) -> bool:
        """Whether it is a directory of this machine."""
        return "://" not in self.uri or self.uri.startswith("file://")

    def open(self, *, read_only: bool = False) -> Graph:
        """The graph itself, with the author of this run."""
        from omnigraph.opening import open_graph

        return open_graph(self.uri, read_only=read_only, actor=None if read_only else actor())


def addressed(uri: str | None = None) -> Target:
    """The graph that this run's command works on. Commands that say where they write say it here."""
    label = label_of(current())
    target = Target(_resolve(uri, given(), label))
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
        known = ", ".join(sorted(settings().servers)) or "none"
        return f"there is no server {server!r} in the configuration; known servers: {known}."
    return f"--server {server} addresses a graph behind a server. {NO_CLIENT}"


def _in_cluster(cluster: str, graph: str | None) -> str:
    from omnigraph.cli.clusters import graph_in_cluster

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
