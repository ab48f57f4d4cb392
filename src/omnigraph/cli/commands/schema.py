"""`omnigraph schema`: the schema of a graph, and the way to another one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.frame.arguments import Json, SchemaFile, Uri, read_text
from omnigraph.cli.frame.graph_scope import actor, addressed
from omnigraph.cli.frame.options import Command, Group, current
from omnigraph.cli.frame.output import say, say_json, working
from omnigraph.errors import InvalidInput

if TYPE_CHECKING:
    from omnigraph.catalog.catalog import Catalog

schema = typer.Typer(cls=Group, no_args_is_help=True, help="Show, plan and change the schema.")


def show(
    uri: Uri = None,
    canonical: Annotated[
        bool, typer.Option("--canonical", help="Print the compiled schema: one layout, no comments.")
    ] = False,
    json: Json = False,
) -> None:
    """Print the schema of a graph as it was written.

    $ omnigraph schema show social.omni
    """
    graph = addressed(uri).open(read_only=True)
    source = graph.schema
    if canonical:
        from omnigraph.language.schema.printer import print_schema

        source = print_schema(graph.catalog)
    say_json({"schema_source": source}) if json else say(source.removesuffix("\n"))


schema.command("show", cls=Command)(show)
schema.command("get", cls=Command, hidden=True)(show)


@schema.command("plan", cls=Command)
def plan(
    schema_file: SchemaFile,
    uri: Uri = None,
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="FILE", help="Plan from this schema file instead of a graph's schema."),
    ] = None,
    allow_data_loss: Annotated[
        bool,
        typer.Option(
            "--allow-data-loss", help="Plan hard drops: dropped types and properties are deleted from history too."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Print the steps from the schema of a graph to a new schema. Nothing is changed.

    $ omnigraph schema plan social.omni --schema wider.pg
    $ omnigraph schema plan --from schema.pg --schema wider.pg
    """
    from omnigraph.language.evolution import plan_evolution
    from omnigraph.language.schema.compile import compile_schema

    desired = compile_schema(read_text(schema_file, "schema file"), schema_file)
    location, accepted = _accepted(uri, from_)
    found = plan_evolution(accepted, desired, allow_data_loss)
    if json:
        document = found.to_dict()
        say_json(
            {"uri": location, "supported": found.supported, "step_count": len(found.steps), "steps": document["steps"]}
        )
        return
    from omnigraph.cli.render.documents import plan_lines

    say(f"schema plan for {location}")
    for line in plan_lines(found):
        say(line)


@schema.command("apply", cls=Command)
def apply(
    schema_file: SchemaFile,
    uri: Uri = None,
    allow_data_loss: Annotated[
        bool, typer.Option("--allow-data-loss", help="Delete dropped types and properties from history too.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the steps, the rows and other branches without applying.")
    ] = False,
    json: Json = False,
) -> None:
    """Change the schema of a graph in one commit.

    $ omnigraph schema apply social.omni --schema wider.pg --dry-run
    $ omnigraph schema apply social.omni --schema wider.pg
    """
    from omnigraph.language.schema.compile import compile_schema

    target = addressed(uri)
    _refuse_cluster_member(target.uri)
    compile_schema(read_text(schema_file, "schema file"), schema_file)
    graph = target.open(read_only=dry_run)
    with working("changing the schema"):
        done = graph.apply_schema(Path(schema_file), allow_data_loss=allow_data_loss, actor=actor(), dry_run=dry_run)
    steps = done.plan.to_dict()["steps"]
    if json:
        say_json(
            {
                "uri": target.uri,
                "supported": done.plan.supported,
                "applied": done.applied,
                "graph_manifest_version": done.snapshot.manifest_version,
                "step_count": len(done.plan.steps),
                "steps": steps,
                **({"branches_behind": list(done.behind)} if done.behind else {}),
            }
        )
        return
    from omnigraph.cli.render.documents import plan_lines

    say(f"schema apply for {target.uri}")
    for line in plan_lines(done.plan):
        say(line)
    say(f"applied: {'yes' if done.applied else 'no'}")
    for name in done.behind:
        say(f"branch {name} keeps the earlier schema; `omnigraph branch merge main --into {name}` brings the new one")


def _refuse_cluster_member(uri: str) -> None:
    from omnigraph.cli.frame.graph_scope import is_cluster_member

    if is_cluster_member(uri):
        raise InvalidInput(f"{uri} belongs to a cluster, which changes schemas itself: declare the new schema there.")


def _accepted(uri: str | None, from_: str | None) -> "tuple[str, Catalog]":
    if from_ is not None and uri is None:
        from omnigraph.language.schema.compile import compile_schema

        return from_, compile_schema(read_text(from_, "schema file"), from_)
    if from_ is not None:
        current().fail("a URI and --from cannot be used together.")
    target = addressed(uri)
    return target.uri, target.open(read_only=True).catalog
