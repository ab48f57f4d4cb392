"""`omnigraph doctor`: does the store keep the rules that commits stand on, and is the graph there whole."""

import typer

from omnigraph.cli.arguments import Json, Uri
from omnigraph.cli.failures import FAILED
from omnigraph.cli.output import say, say_json, working
from omnigraph.cli.scopes import Target, addressed
from omnigraph.errors import GraphUnavailable, NotAGraph


def doctor(uri: Uri = None, json: Json = False) -> None:
    """Find out whether a store is safe for a graph. A graph that is there must open as well.

    Four writers race for a few small objects below the graph's place, which are then removed.

    Exit 1 when the store would lose commits, or when the graph cannot be opened.

    $ omnigraph doctor s3://bucket/social.omni
    """
    target = addressed(uri)
    with working(f"probing {target.uri}"):
        checks = [*_probe(target), _graph(target)]
    ok = all(passed for _, passed, _ in checks)
    if json:
        told = [{"name": name, "ok": passed, "detail": detail} for name, passed, detail in checks]
        say_json({"uri": target.uri, "ok": ok, "checks": told})
    else:
        for name, passed, detail in checks:
            say(f"{'ok  ' if passed else 'FAIL'} {name}: {detail}")
    if not ok:
        raise typer.Exit(FAILED)


def _probe(target: Target) -> list[tuple[str, bool, str]]:
    from omnigraph.store.location import parse_location
    from omnigraph.store.probe import probe_store

    return [(each.name, each.ok, each.detail) for each in probe_store(parse_location(target.uri)).checks]


def _graph(target: Target) -> tuple[str, bool, str]:
    """A place without a graph is fine: one can be made there."""
    name = "the graph opens"
    try:
        graph = target.open(read_only=True)
    except NotAGraph:
        return name, True, "there is none yet"
    except GraphUnavailable as error:
        return name, False, error.message
    types = len(graph.catalog.nodes) + len(graph.catalog.edges)
    return name, True, f"{types} types, {len(graph.branches.list())} branches"
