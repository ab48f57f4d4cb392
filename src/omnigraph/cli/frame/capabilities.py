"""What each command requires: a graph anywhere, its storage, a cluster, or nothing; and the flags that follow from it.

A flag that has no meaning for a command is refused, never ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from omnigraph.errors import InvalidInput

if TYPE_CHECKING:
    from omnigraph.cli.frame.options import Given

Capability = Literal["any", "direct", "local"]
Flag = Literal["server", "cluster", "graph", "store", "as", "profile"]

FLAGS: tuple[Flag, ...] = ("server", "cluster", "graph", "store", "as", "profile")

_DIRECT = {"init", "optimize", "repair", "cleanup", "lint", "schema plan", "ensure-indices", "recovery list", "doctor"}
_LOCAL = {"profile list", "profile show", "version", "completion", "embed"}
# These few look for their graph in a cluster, too.
_IN_CLUSTERS = {"optimize", "repair", "cleanup", "lint"}
# Reads and maintenance have no author.
_WITHOUT_ACTOR = ("query", "commit", "changes", "blob", "diff")
# Commands that ask before they delete data, and those that print on stderr where they write.
_DESTRUCTIVE = {"cleanup", "load", "ingest", "branch delete", "pipeline run"}
_ECHOING = {
    *("load", "ingest", "branch create", "branch delete", "branch merge", "schema apply", "pipeline run"),
    *("optimize", "repair", "cleanup", "ensure-indices", "tag create", "tag delete", "revert"),
}

_CALLED: dict[Capability, str] = {"any": "data", "direct": "direct (storage)", "local": "local"}
_MEANING: dict[Flag, str] = {
    "server": "--server names a graph behind a server",
    "cluster": "--cluster names the graphs of a cluster",
    "graph": "--graph picks one graph of a server or cluster",
    "store": "--store names the storage of one graph",
    "as": "--as names the author of a write",
    "profile": "--profile names a scope of the configuration",
}


def capability(label: str) -> Capability:
    """What a command works on."""
    if label in _LOCAL:
        return "local"
    return "direct" if label in _DIRECT else "any"


def applies(flag: Flag, label: str) -> bool:
    """Whether a command can make use of a flag."""
    kind = capability(label)
    if kind == "local":
        return False
    match flag:
        case "server":
            return kind == "any"
        case "cluster":
            return label in _IN_CLUSTERS
        case "graph":
            return kind == "any" or label in _IN_CLUSTERS
        case "as":
            return kind == "any" and label.split()[0] not in _WITHOUT_ACTOR
        case "store" | "profile":
            return label != "init"


def is_offered(flag: Flag, label: str) -> bool:
    """Whether the help of a command shows a flag: there is no client for servers, so what needs one is not shown."""
    return applies(flag, label) and (flag in {"store", "as", "profile"} or label in _IN_CLUSTERS)


def asks_for_consent(label: str) -> bool:
    """Whether `--yes` means something to a command."""
    return label in _DESTRUCTIVE


def echoes_its_target(label: str) -> bool:
    """Whether a command says on stderr where it writes, unless `--quiet`."""
    return label in _ECHOING


def refuse_misplaced(label: str, given: Given) -> None:
    """Raise about the first flag that was given and does not apply."""
    for flag in FLAGS:
        if given.flag(flag) is not None and not applies(flag, label):
            raise InvalidInput(
                f"`{label}` is a {_CALLED[capability(label)]} command; {_MEANING[flag]} and does not apply."
                + _remedy(flag, label)
            )


def _remedy(flag: Flag, label: str) -> str:
    if label == "init":
        return " Give the URI of the new graph." if flag in {"store", "server", "cluster", "graph", "profile"} else ""
    if flag in {"server", "cluster"} and applies("store", label):
        return " Give the graph's URI or --store."
    return ""
