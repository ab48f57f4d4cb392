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
_ALLOWED_KEYS: dict[str, tuple[str, ...]] = {
    "servers": ("url",),
    "clusters": ("root",),
    "profiles": (*KINDS, "default_graph"),
    "aliases": ("server", "graph", "query", "args", "params", "format"),
}


@dataclass(frozen=True)
class Defaults:
    """The values of options that are not given."""

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
            names = ", ".join(sorted(self.profiles)) or "none"
            raise InvalidInput(f"there is no profile {name!r}; known profiles: {names}.")
        loaded = self.profiles[name]
        kinds = [kind for kind in KINDS if loaded.get(kind) is not None]
        if len(kinds) != 1:
            raise InvalidInput(f"profile {name!r} must have exactly one of server, cluster and store.")
        if kinds == ["store"] and loaded.get("default_graph") is not None:
            raise InvalidInput(f"profile {name!r} names one store: default_graph has no meaning there.")
        return ProfileScope(kinds[0], str(loaded[kinds[0]]), loaded.get("default_graph"))


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


def _settings(loaded: Mapping[str, Any], path: Path) -> CliConfig:
    _warn_unknown(loaded, _SECTIONS, path, "")
    for section, allowed_keys in _ALLOWED_KEYS.items():
        for name, entry in _mapping(loaded.get(section), f"{path}: {section}").items():
            _warn_unknown(_mapping(entry, f"{path}: {section}.{name}"), allowed_keys, path, f"{section}.{name}.")
    operator = _mapping(loaded.get("operator"), f"{path}: operator")
    _warn_unknown(operator, ("actor",), path, "operator.")
    return CliConfig(
        actor=operator.get("actor"),
        defaults=_defaults(_mapping(loaded.get("defaults"), f"{path}: defaults"), path),
        servers=_addresses(loaded, "servers", "url", path),
        clusters=_addresses(loaded, "clusters", "root", path),
        profiles=_mapping(loaded.get("profiles"), f"{path}: profiles"),
    )


def _defaults(loaded: Mapping[str, Any], path: Path) -> Defaults:
    _warn_unknown(loaded, _DEFAULTS, path, "defaults.")
    if loaded.get("server") is not None and loaded.get("store") is not None:
        raise InvalidInput(f"{path}: defaults name a server and a store; keep one of them.")
    if loaded.get("store") is not None and loaded.get("default_graph") is not None:
        raise InvalidInput(f"{path}: defaults.default_graph has no meaning beside defaults.store.")
    found = {name: loaded[name] for name in _DEFAULTS if loaded.get(name) is not None}
    _require(found.get("output"), (None, *_FORMATS), f"{path}: defaults.output")
    _require(found.get("table_cell_layout"), (None, "truncate", "wrap"), f"{path}: defaults.table_cell_layout")
    if not isinstance(found.get("table_max_column_width", 1), int):
        raise InvalidInput(f"{path}: defaults.table_max_column_width must be a number.")
    return Defaults(**found)


def _require(value: object, allowed: tuple[object, ...], where: str) -> None:
    if value not in allowed:
        raise InvalidInput(f"{where} must be one of {', '.join(str(each) for each in allowed if each)}.")


def _addresses(loaded: Mapping[str, Any], section: str, key: str, path: Path) -> dict[str, str]:
    found = {}
    for name, entry in _mapping(loaded.get(section), f"{path}: {section}").items():
        if not isinstance(entry.get(key), str):
            raise InvalidInput(f"{path}: {section}.{name} needs {key}.")
        found[str(name)] = entry[key]
    return found


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidInput(f"{where} must be a mapping of names to values.")
    return value


def _warn_unknown(loaded: Mapping[str, Any], allowed_keys: tuple[str, ...], path: Path, prefix: str) -> None:
    for name in loaded:
        if name not in allowed_keys:
            note(f"warning: {path}: {prefix}{name} is not a known key and is ignored")
