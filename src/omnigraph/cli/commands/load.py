"""`omnigraph load`: nodes and edges from files, as one commit."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from omnigraph.cli.frame.arguments import Json, Uri
from omnigraph.cli.frame.graph_scope import GraphScope, actor, addressed, require_consent
from omnigraph.cli.frame.output import note, say, say_json, working

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.graph.backends import Loaded

Mode = Literal["overwrite", "append", "merge"]
Engine = Literal["auto", "local", "spark"]
Data = Annotated[
    list[str],
    typer.Option(
        "--data",
        metavar="PATH",
        help="A file, a glob or a directory: JSONL graph records, CSV, Parquet, …. Repeatable: all are one commit.",
    ),
]
LoadBranch = Annotated[str, typer.Option("--branch", metavar="BRANCH", help="The branch to load into.")]
_MODES = "How existing entities are treated: overwrite their types, append new ones only, or merge (replace) by id."


def load(
    data: Data,
    mode: Annotated[Mode, typer.Option("--mode", help=_MODES)],
    uri: Uri = None,
    branch: LoadBranch = "main",
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="BRANCH", help="Create the branch from this one if it does not exist."),
    ] = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option(
            "--idempotency-key", metavar="KEY", help="Load once: a repeated command with the same key has no effect."
        ),
    ] = None,
    engine: Annotated[
        Engine, typer.Option("--engine", help="The engine: auto selects Spark for more than 64 MiB of input.")
    ] = "auto",
    master: Annotated[
        str | None, typer.Option("--master", metavar="URL", help="The Spark master, such as local[4] or spark://host.")
    ] = None,
    quarantine: Annotated[
        int,
        typer.Option("--quarantine", metavar="LIMIT", min=0, help="Set up to LIMIT bad rows aside; 0 fails at one."),
    ] = 0,
    rejects: Annotated[
        str | None, typer.Option("--rejects", metavar="PATH", help="A Parquet table for the rows that are set aside.")
    ] = None,
    embed: Annotated[
        bool, typer.Option("--embed", help="Compute missing vectors from the texts that @embed declares.")
    ] = False,
    json: Json = False,
) -> None:
    """Load nodes and edges in one commit.

    $ omnigraph load social.omni --data people.jsonl --mode merge
    $ omnigraph load social.omni --data people.jsonl --data knows.jsonl --mode merge
    $ omnigraph load social.omni --data 'rows/*.parquet' --mode append --branch import --from main
    $ omnigraph load social.omni --data big/ --mode overwrite --engine spark --master 'local[4]'
    $ omnigraph load social.omni --data people.jsonl --mode merge --quarantine 100 --rejects rejects.parquet
    """
    from omnigraph.load.plan import quarantine as set_aside

    if rejects is not None and not quarantine:
        raise typer.BadParameter("--rejects needs --quarantine, the number of rows that may be set aside.")
    target = addressed(uri)
    how: dict[str, Any] = {"engine": engine, "master": master, "idempotency_key": idempotency_key, "embed": embed}
    how |= {"on_error": set_aside(quarantine, rejects)} if quarantine else {}
    document = _loaded(target, data, mode, branch, from_, strict=True, json=json, **how)
    if json:
        say_json({name: value for name, value in document.items() if name != "actor_id"})
        return
    kinds = f"{len(document['nodes'])} node types and {len(document['edges'])} edge types"
    say(f"loaded {target.uri} on branch {branch} with {mode}: {document['total_entities']} entities across {kinds}")
    if document["branch_created"]:
        say(f"branch {branch} created from {from_}")
    if document.get("rejected"):
        say(f"set aside: {', '.join(f'{rows} by {rule}' for rule, rows in document['rejected'].items())}")


def ingest(
    data: Data,
    uri: Uri = None,
    branch: LoadBranch = "main",
    from_: Annotated[str, typer.Option("--from", metavar="BRANCH", help="Create the branch from this one.")] = "main",
    mode: Annotated[Mode, typer.Option("--mode", help=_MODES)] = "merge",
    json: Json = False,
) -> None:
    """Load with the permissive grammar. A deprecated form of `load`.

    $ omnigraph ingest social.omni --data people.jsonl
    """
    note("warning: `ingest` is now `load`, which names its --mode")
    target = addressed(uri)
    document = _loaded(target, data, mode, branch, from_, strict=False, json=json)
    if json:
        say_json(document)
        return
    made = "branch created" if document["branch_created"] else "branch exists"
    say(
        f"ingested {document['total_entities']} entities from {', '.join(data)} into branch {branch} from {from_} "
        f"with {mode} ({made})"
    )
    for kind in ("node", "edge"):
        for each in document[f"{kind}s"]:
            say(f"{kind} type '{each['name']}': {each['entities_loaded']} entities loaded")
    if "actor_id" in document:
        say(f"actor_id: {document['actor_id']}")


def _loaded(
    target: GraphScope,
    data: list[str],
    mode: Mode,
    branch: str,
    from_: str | None,
    *,
    strict: bool,
    json: bool,
    **how: Any,
) -> dict[str, Any]:
    """Load, and return the document that programs read."""
    from omnigraph.cli.render.documents import commit_json, present

    if mode == "overwrite":
        require_consent("load --mode overwrite", target.uri, is_local=target.is_local, json=json)
    graph = target.open()
    created = from_ is not None and branch not in {each.name for each in graph.branches.list()}
    with working(f"loading {', '.join(data)}"):
        done = graph.load(data, mode=mode, branch=branch, from_=from_, strict=strict, **how)
    return {
        "uri": target.uri,
        "branch": branch,
        "mode": mode,
        **present(base_branch=from_),
        "branch_created": created,
        **_counts(done),
        **present(actor_id=actor()),
        "commit": commit_json(done.commit),
    }


def _counts(done: "Loaded") -> dict[str, Any]:
    """A load that had been done before loads nothing."""
    if done.repeated:
        return {"nodes": [], "edges": [], "total_entities": 0}
    nodes, edges = _by_name(done.summary.nodes), _by_name(done.summary.edges)
    rejected = {"rejected": dict(done.summary.rejected)} if done.summary.rejected else {}
    return {"nodes": nodes, "edges": edges, "total_entities": done.summary.rows, **rejected}


def _by_name(counts: "Mapping[str, int]") -> list[dict[str, Any]]:
    return [{"name": name, "entities_loaded": counts[name]} for name in sorted(counts)]
