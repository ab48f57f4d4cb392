"""`omnigraph ensure-indices`: build the indexes that the schema declares."""

from typing import Annotated, Literal

import typer

from omnigraph.cli.arguments import Branch, Json, Uri
from omnigraph.cli.output import say, say_json, working
from omnigraph.cli.scopes import addressed


def ensure_indices(
    uri: Uri = None,
    branch: Branch = None,
    engine: Annotated[
        Literal["auto", "local", "spark"],
        typer.Option("--engine", help="Who builds them: spark has the parts of each built by many tasks."),
    ] = "auto",
    json: Json = False,
) -> None:
    """Build the indexes that are declared and missing. All of them are one commit.

    $ omnigraph ensure-indices social.omni
    $ omnigraph ensure-indices social.omni --engine spark
    """
    from omnigraph.cli.wire import commit_json

    target = addressed(uri)
    graph = target.open()
    with working("building indexes"):
        done = graph.ensure_indices(branch=branch or "main", engine=engine)
    if json:
        built = [{"type_key": key, "indexes": list(names)} for key, names in sorted(done.built.items())]
        pending = [
            {"type_key": each.table_key, "property": each.property, "reason": each.reason} for each in done.pending
        ]
        commit = commit_json(done.commit) if done.commit else None
        say_json({"uri": target.uri, "built": built, "pending_indexes": pending, "commit": commit})
        return
    if not done.built:
        say("no index was missing")
    for key, names in sorted(done.built.items()):
        say(f"built {key}: {', '.join(names)}")
    for each in done.pending:
        say(f"pending {each.table_key}.{each.property}: {each.reason}")
