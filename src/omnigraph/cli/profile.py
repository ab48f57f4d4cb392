"""`omnigraph profile`: the named scopes of the configuration."""

from typing import Annotated, Any

import typer

from omnigraph.cli.arguments import Json
from omnigraph.cli.options import Command, Group
from omnigraph.cli.output import say, say_json
from omnigraph.cli.settings import Binding, Settings, active_profile, settings
from omnigraph.errors import InvalidInput

profile = typer.Typer(cls=Group, no_args_is_help=True, help="The named scopes of the configuration.")


@profile.command("list", cls=Command)
def list_profiles(json: Json = False) -> None:
    """List the profiles and what each stands for.

    $ omnigraph profile list
    """
    held, active = settings(), active_profile(None)
    items = [_item(held, name, active=name == active) for name in sorted(held.profiles)]
    if json:
        say_json(items)
        return
    if not items:
        say("no profiles in the configuration")
    for item in items:
        graph = f" · graph: {item['default_graph']}" if item["default_graph"] else ""
        say(f"{item['name']}{' (active)' if item['active'] else ''}  {item['binding']}{graph}")


@profile.command("show", cls=Command)
def show(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The profile; the defaults if not given.")] = None,
    json: Json = False,
) -> None:
    """Show what a profile, or the active one, or the defaults come to.

    $ omnigraph profile show prod
    """
    held = settings()
    chosen = name or active_profile(None)
    detail = _detail(held, chosen or "(defaults)", held.binding(chosen) if chosen else _default_binding(held))
    if json:
        say_json(detail)
        return
    say(f"profile: {detail['name']}")
    say(f"  scope:   {detail['scope_kind']} {detail['target'] or ''}".rstrip())
    for label, key in (("endpoint", "endpoint"), ("default graph", "default_graph"), ("output", "output_format")):
        if detail[key] is not None:
            say(f"  {label}: {detail[key]}")


def _item(held: Settings, name: str, *, active: bool) -> dict[str, Any]:
    """A profile that cannot be used is listed with the reason."""
    try:
        found = held.binding(name)
    except InvalidInput as error:
        shape = {"binding": f"invalid: {error.message}", "scope_kind": "invalid", "target": None}
        return {"name": name, **shape, "valid": False, "error": error.message, "default_graph": None, "active": active}
    shape = {"binding": f"{found.kind}: {found.target}", "scope_kind": found.kind, "target": found.target}
    return {
        "name": name,
        **shape,
        "valid": True,
        "error": None,
        "default_graph": found.default_graph,
        "active": active,
    }


def _default_binding(held: Settings) -> Binding | None:
    if held.defaults.server is not None:
        return Binding("server", held.defaults.server, held.defaults.default_graph)
    return Binding("store", held.defaults.store, None) if held.defaults.store is not None else None


def _detail(held: Settings, name: str, found: Binding | None) -> dict[str, Any]:
    return {
        "name": name,
        "scope_kind": found.kind if found else "none",
        "target": found.target if found else None,
        "endpoint": _endpoint(held, found) if found else None,
        "default_graph": found.default_graph if found else None,
        "output_format": held.defaults.output,
    }


def _endpoint(held: Settings, found: Binding) -> str | None:
    """The address itself; a server or cluster that is given as one needs no entry."""
    known = {"server": held.servers, "cluster": held.clusters, "store": {}}[found.kind]
    literal = found.kind == "store" or "://" in found.target
    return known.get(found.target, found.target if literal else None)
