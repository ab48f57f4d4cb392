"""The operator's configuration, `config.yaml` in `~/.omnigraph` or `OMNIGRAPH_HOME`.

A missing file is an empty configuration. An unknown key is reported and ignored; a value of the wrong form is an error.
A profile is checked when it is used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from omnigraph.cli.frame.options import current
from omnigraph.cli.frame.output import note
from omnigraph.errors import InvalidInput
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEY = "omnigraph.settings"
ScopeKind = Literal["server", "cluster", "store"]
KINDS: tuple[ScopeKind, ...] = ("server", "cluster", "store")
_SECTIONS = ("operator", "defaults", "servers", "clusters", "profiles", "aliases")
_DEFAULTS = ("output", "table_max_column_width", "table_cell_layout", "server", "store", "default_graph")
_FORMATS = ("table", "kv", "csv", "jsonl", "json")
_KNOWN: dict[str, tuple[str, ...]] = {
    "servers": ("url",),
    "clusters": ("root",),
    "profiles": (*KINDS, "default_graph"),
    "aliases": ("server", "graph", "query", "args", "params", "format"),
}


@dataclass(frozen=True)
class Defaults:
    """What holds where nothing was said."""

    output: Literal["table", "kv", "csv", "jsonl", "json"] | None = None
    table_max_column_width: int = 80
    table_cell_layout: Literal["truncate", "wrap"] = "truncate"
    server: str | None = None
    store: str | None = None
    default_graph: str | None = None


@dataclass(frozen=True)
class ProfileScope:
    """The one scope that a profile stands for."""

    kind: ScopeKind
    target: str
    default_graph: str | None


@dataclass(frozen=True)
class CliConfig:
    """The configuration as it was read."""

    actor: str | None = None
    defaults: Defaults = field(default_factory=Defaults)
    servers: Mapping[str, str] = field(default_factory=dict)
    clusters: Mapping[str, str] = field(default_factory=dict)
    profiles: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def binding(self, name: str) -> ProfileScope:
        """A profile, checked."""
        if name not in self.profiles:
            known = ", ".join(sorted(self.profiles)) or "none"
            raise InvalidInput(f"there is no profile {name!r}; known profiles: {known}.")
        held = self.profiles[name]
        kinds = [kind for kind in KINDS if held.get(kind) is not None]
        if len(kinds) != 1:
            raise InvalidInput(f"profile {name!r} must have exactly one of server, cluster and store.")
        if kinds == ["store"] and held.get("default_graph") is not None:
            raise InvalidInput(f"profile {name!r} names one store: default_graph has no meaning there.")
        return ProfileScope(kinds[0], str(held[kinds[0]]), held.get("default_graph"))


def home() -> Path:
    """The directory of the configuration."""
    chosen = REAL.environ.get("OMNIGRAPH_HOME")
    return Path(expanded(chosen)) if chosen else Path(expanded("~")) / ".omnigraph"


def expanded(path: str) -> str:
    """A path with its leading `~` replaced, as a shell would do it."""
    at_home = REAL.environ.get("HOME", "")
    return at_home + path[1:] if at_home and (path == "~" or path.startswith("~/")) else path


def active_profile(flag: str | None) -> str | None:
    """The profile in force: the flag, else the environment, where empty means none."""
    return flag or REAL.environ.get("OMNIGRAPH_PROFILE") or None


def settings() -> CliConfig:
    """The configuration of this run, which reads it once."""
    meta = current().meta
    if _KEY not in meta:
        meta[_KEY] = _read(home() / "config.yaml")
    found: CliConfig = meta[_KEY]
    return found


def _read(path: Path) -> CliConfig:
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return CliConfig()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}") from error
    return _settings(_mapping(_parsed(text, path), str(path)), path)


def _parsed(text: str, path: Path) -> object:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidInput(f"{path} is not YAML: {error}") from error


def _settings(held: Mapping[str, Any], path: Path) -> CliConfig:
    _warn_unknown(held, _SECTIONS, path, "")
    for section, known in _KNOWN.items():
        for name, entry in _mapping(held.get(section), f"{path}: {section}").items():
            _warn_unknown(_mapping(entry, f"{path}: {section}.{name}"), known, path, f"{section}.{name}.")
    operator = _mapping(held.get("operator"), f"{path}: operator")
    _warn_unknown(operator, ("actor",), path, "operator.")
    return CliConfig(
        actor=operator.get("actor"),
        defaults=_defaults(_mapping(held.get("defaults"), f"{path}: defaults"), path),
        servers=_addresses(held, "servers", "url", path),
        clusters=_addresses(held, "clusters", "root", path),
        profiles=_mapping(held.get("profiles"), f"{path}: profiles"),
    )


def _defaults(held: Mapping[str, Any], path: Path) -> Defaults:
    _warn_unknown(held, _DEFAULTS, path, "defaults.")
    if held.get("server") is not None and held.get("store") is not None:
        raise InvalidInput(f"{path}: defaults name a server and a store; keep one of them.")
    if held.get("store") is not None and held.get("default_graph") is not None:
        raise InvalidInput(f"{path}: defaults.default_graph has no meaning beside defaults.store.")
    found = {name: held[name] for name in _DEFAULTS if held.get(name) is not None}
    _require(found.get("output"), (None, *_FORMATS), f"{path}: defaults.output")
    _require(found.get("table_cell_layout"), (None, "truncate", "wrap"), f"{path}: defaults.table_cell_layout")
    if not isinstance(found.get("table_max_column_width", 1), int):
        raise InvalidInput(f"{path}: defaults.table_max_column_width must be a number.")
    return Defaults(**found)


def _require(value: object, allowed: tuple[object, ...], place: str) -> None:
    if value not in allowed:
        raise InvalidInput(f"{place} must be one of {', '.join(str(each) for each in allowed if each)}.")


def _addresses(held: Mapping[str, Any], section: str, key: str, path: Path) -> dict[str, str]:
    found = {}
    for name, entry in _mapping(held.get(section), f"{path}: {section}").items():
        if not isinstance(entry.get(key), str):
            raise InvalidInput(f"{path}: {section}.{name} needs {key}.")
        found[str(name)] = entry[key]
    return found


def _mapping(value: object, place: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidInput(f"{place} must be a mapping of names to values.")
    return value


def _warn_unknown(held: Mapping[str, Any], known: tuple[str, ...], path: Path, prefix: str) -> None:
    for name in held:
        if name not in known:
            note(f"warning: {path}: {prefix}{name} is not a known key and is ignored")
