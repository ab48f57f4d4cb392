"""`omnigraph mutate`: run a mutation as one commit."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.frame.arguments import (
    Branch,
    Json,
    Params,
    ParamsFile,
    QueryFile,
    QueryText,
    parameters,
    query_source,
)
from omnigraph.cli.frame.graph_scope import addressed
from omnigraph.cli.frame.options import given
from omnigraph.cli.frame.output import LOST_PRECONDITION, report, say, say_json
from omnigraph.errors import HeadMismatch, InvalidInput

if TYPE_CHECKING:
    from omnigraph.mutation.run import Mutated


def mutate(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The name of the query to run.")] = None,
    query: QueryFile = None,
    query_string: QueryText = None,
    params: Params = None,
    params_file: ParamsFile = None,
    branch: Branch = None,
    if_commit: Annotated[
        str | None,
        typer.Option(
            "--if-commit",
            metavar="ID",
            help="Write only if this is the newest commit of the branch; otherwise exit with 4.",
        ),
    ] = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option(
            "--idempotency-key", metavar="KEY", help="Run once: a repeated command with the same key has no effect."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Run a mutation. All its statements are one commit.

    $ omnigraph mutate add --query queries.gq --params '{"name": "Ada"}' --store social.omni
    $ omnigraph mutate -e 'query q() { delete Person where age < 18 }' --store social.omni --branch review
    """
    source = query_source(query, query_string, "mutate")
    values = parameters(params, params_file)
    target = addressed()
    from omnigraph.language.gq.syntax.parse import parse_queries

    parsed = parse_queries(source, query or "<query>").select(name)
    if not parsed.is_mutation:
        raise InvalidInput(f"query {parsed.name!r} only reads: run it with `omnigraph query`.")
    chosen = parsed.name
    try:
        done = target.open().mutate(
            source,
            values,
            branch=branch or "main",
            name=chosen,
            if_commit=if_commit,
            idempotency_key=idempotency_key,
        )
    except HeadMismatch as mismatch:
        _say_mismatch(mismatch, json=json)
        raise typer.Exit(LOST_PRECONDITION) from mismatch
    document = _mutated_json(done, branch or "main", chosen)
    say_json(document) if json else _say(document, done)


def _say_mismatch(mismatch: HeadMismatch, *, json: bool) -> None:
    from omnigraph.cli.render.documents import precondition_json

    say_json(precondition_json(mismatch)) if json else report(mismatch, debug=given().debug)


def _mutated_json(done: "Mutated", branch: str, name: str) -> dict[str, Any]:
    from omnigraph.cli.render.documents import commit_json, present

    commit = done.commit
    counts = {"affected_nodes": done.affected_nodes, "affected_edges": done.affected_edges}
    actor = present(actor_id=commit.actor if commit else None)
    return {"branch": branch, "query_name": name, **counts, **actor, "commit": commit_json(commit) if commit else None}


def _say(document: dict[str, Any], done: "Mutated") -> None:
    counts = f"{done.affected_nodes} nodes, {done.affected_edges} edges"
    say(f"changed {document['branch']} via {document['query_name']}: {counts}")
    if "actor_id" in document:
        say(f"actor_id: {document['actor_id']}")
    if done.repeated and done.commit is not None:
        say(f"repeated: commit {done.commit.id} had been made with this key")
