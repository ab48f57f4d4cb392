"""`omnigraph profile`: the named scopes of the configuration.

`omnigraph doctor`: does the store keep the rules that commits stand on, and is the graph there whole.

`omnigraph init`: make a graph from a schema.

`omnigraph version`: this program and the format that it writes.
"""

from typing import Annotated, Any

import typer

from omnigraph import __version__
from omnigraph.cli.frame.arguments import Json, SchemaFile, Uri, read_text
from omnigraph.cli.frame.config import CliConfig, ProfileScope, active_profile, settings
from omnigraph.cli.frame.graph_scope import GraphScope, addressed
from omnigraph.cli.frame.options import Command, Group
from omnigraph.cli.frame.output import FAILED, say, say_json, working
from omnigraph.errors import GraphUnavailable, InvalidInput, NotAGraph


def doctor(uri: Uri = None, json: Json = False) -> None:
    """Check whether a store is safe for a graph. An existing graph must also open.

    Four writers compete for a few small objects at the location of the graph, which are then deleted.

    The exit code is 1 if the store can lose commits or the graph cannot be opened.

    $ omnigraph doctor s3://bucket/social.omni
    """
    target = addressed(uri)
    with working(f"probing {target.uri}"):
        checks = [*_probe(target), _graph(target)]
    ok = all(passed for _, passed, _ in checks)
    if json:
        document = [{"name": name, "ok": passed, "detail": detail} for name, passed, detail in checks]
        say_json({"uri": target.uri, "ok": ok, "checks": document})
    else:
        for name, passed, detail in checks:
            say(f"{'ok  ' if passed else 'FAIL'} {name}: {detail}")
    if not ok:
        raise typer.Exit(FAILED)


def _probe(target: GraphScope) -> list[tuple[str, bool, str]]:
    from omnigraph.storage.objects.location import parse_location
    from omnigraph.storage.tables.probe import probe_store
    from omnigraph.world import REAL

    return [(each.name, each.ok, each.detail) for each in probe_store(parse_location(target.uri, REAL), REAL).checks]


def _graph(target: GraphScope) -> tuple[str, bool, str]:
    """A location without a graph is fine: one can be created there."""
    name = "the graph opens"
    try:
        graph = target.open(read_only=True)
    except NotAGraph:
        return name, True, "there is none yet"
    except GraphUnavailable as error:
        return name, False, error.message
    types = len(graph.catalog.nodes) + len(graph.catalog.edges)
    return name, True, f"{types} types, {len(graph.branches.list())} branches"


def init(
    uri: Annotated[
        str, typer.Argument(metavar="URI", help="The location of the new graph: a path, s3://, gs:// or az://.")
    ],
    schema: SchemaFile,
    force: Annotated[bool, typer.Option("--force", help="Replace schema files that have no graph.")] = False,
    json: Json = False,
) -> None:
    """Create a graph from a schema. An existing graph is not changed.

    $ omnigraph init --schema schema.pg social.omni
    $ omnigraph init --schema schema.pg s3://bucket/social.omni
    """
    source = read_text(schema, "schema file")
    _refuse_cluster_member(uri)
    from omnigraph.graph.open import init as make

    _check(source, schema)
    if force:
        _clear_orphans(uri)
    make(uri, schema=source)
    say_json({"uri": uri}) if json else say(f"initialized {uri}")


def _check(source: str, name: str) -> None:
    """Tell about the schema before the store is touched, and by its file's name."""
    from omnigraph.language.schema.compile import compile_schema

    compile_schema(source, name)


def _refuse_cluster_member(uri: str) -> None:
    from omnigraph.cli.frame.graph_scope import is_cluster_member

    if is_cluster_member(uri):
        raise InvalidInput(f"{uri} belongs to a cluster, which makes its graphs itself: declare the graph there.")


def _clear_orphans(uri: str) -> None:
    """Remove schema files that no manifest goes with."""
    from omnigraph.manifest.layout import MANIFEST, SCHEMA_FILES
    from omnigraph.storage.objects.location import parse_location
    from omnigraph.storage.objects.store import open_control_store
    from omnigraph.world import REAL

    store = open_control_store(parse_location(uri, REAL), REAL)
    if store.exists(MANIFEST):
        return
    for name in SCHEMA_FILES:
        store.delete(name)


profile = typer.Typer(cls=Group, no_args_is_help=True, help="Show the profiles of the configuration.")


@profile.command("list", cls=Command)
def list_profiles(json: Json = False) -> None:
    """List the profiles and their settings.

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
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The profile; default: the defaults.")] = None,
    json: Json = False,
) -> None:
    """Show the effective settings of a profile, of the active profile, or of the defaults.

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


def _item(held: CliConfig, name: str, *, active: bool) -> dict[str, Any]:
    """A profile that cannot be used is listed with the reason."""
    try:
        found = held.binding(name)
    except InvalidInput as error:
        scope = {"binding": f"invalid: {error.message}", "scope_kind": "invalid", "target": None}
        return {"name": name, **scope, "valid": False, "error": error.message, "default_graph": None, "active": active}
    scope = {"binding": f"{found.kind}: {found.target}", "scope_kind": found.kind, "target": found.target}
    return {
        "name": name,
        **scope,
        "valid": True,
        "error": None,
        "default_graph": found.default_graph,
        "active": active,
    }


def _default_binding(held: CliConfig) -> ProfileScope | None:
    if held.defaults.server is not None:
        return ProfileScope("server", held.defaults.server, held.defaults.default_graph)
    return ProfileScope("store", held.defaults.store, None) if held.defaults.store is not None else None


def _detail(held: CliConfig, name: str, found: ProfileScope | None) -> dict[str, Any]:
    return {
        "name": name,
        "scope_kind": found.kind if found else "none",
        "target": found.target if found else None,
        "endpoint": _endpoint(held, found) if found else None,
        "default_graph": found.default_graph if found else None,
        "output_format": held.defaults.output,
    }


def _endpoint(held: CliConfig, found: ProfileScope) -> str | None:
    """The address itself; a server or cluster that is given as one needs no entry."""
    addresses = {"server": held.servers, "cluster": held.clusters, "store": {}}[found.kind]
    literal = found.kind == "store" or "://" in found.target
    return addresses.get(found.target, found.target if literal else None)


def version(json: Json = False) -> None:
    """Print the version of this program and of its format.

    $ omnigraph version
    """
    from omnigraph.manifest.layout import CURRENT

    if json:
        say_json({"version": __version__, "internal_schema_version": CURRENT})
        return
    say(f"omnigraph {__version__}")
    say(f"internal-schema {CURRENT}")
