"""`omnigraph branch`: make, list, merge and delete branches."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from omnigraph.cli.frame.arguments import (
    DryRun,
    Json,
    Resolve,
    ResolveFile,
    Strict,
    Uri,
    UriOption,
    resolver_of,
    say_conflicts,
    say_left_out,
)
from omnigraph.cli.frame.graph_scope import actor, addressed, require_consent
from omnigraph.cli.frame.options import Command, Group
from omnigraph.cli.frame.output import note, say, say_json
from omnigraph.errors import InvalidInput, MergeConflicts

if TYPE_CHECKING:
    from omnigraph.history.merge.merge import Merged

branch = typer.Typer(cls=Group, no_args_is_help=True, help="Create, list, merge and delete branches.")
Name = Annotated[str, typer.Argument(metavar="NAME", help="The branch.")]


@branch.command("create", cls=Command)
def create(
    name: Name,
    uri: UriOption = None,
    from_: Annotated[str, typer.Option("--from", metavar="BRANCH", help="The branch to start from.")] = "main",
    at: Annotated[
        str | None, typer.Option("--at", metavar="COMMIT", help="Start at this commit instead of the newest one.")
    ] = None,
    json: Json = False,
) -> None:
    """Create a branch. A branch takes no space until it is written to.

    $ omnigraph branch create review --uri social.omni
    $ omnigraph branch create last-week --uri social.omni --from main --at 01M7GP1WZ52FYZDCM3NRT8NXYP
    """
    from omnigraph.cli.render.documents import present

    target = addressed(uri)
    target.open().branches.create(name, from_=at or from_)
    if json:
        say_json({"uri": target.uri, "name": name, "from": from_, **present(actor_id=actor())})
    else:
        say(f"created branch {name} from {from_}")


@branch.command("list", cls=Command)
def list_branches(uri: Uri = None, uri_option: UriOption = None, json: Json = False) -> None:
    """List the branches, main first.

    $ omnigraph branch list social.omni
    """
    if uri is not None and uri_option is not None:
        raise InvalidInput("a URI and --uri are mutually exclusive: address one graph in one way.")
    names = [each.name for each in addressed(uri or uri_option).open(read_only=True).branches.list()]
    if json:
        say_json({"branches": names})
        return
    for name in names:
        say(name)


@branch.command("delete", cls=Command)
def delete(
    name: Name,
    uri: UriOption = None,
    json: Json = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Delete it even if two other branches have merged it and not each other since."),
    ] = False,
) -> None:
    """Delete a branch and the data that only it has. It cannot be deleted while another branch depends on it.

    $ omnigraph branch delete review --uri social.omni
    """
    from omnigraph.cli.render.documents import present

    target = addressed(uri)
    require_consent(f"deleting branch {name}", target.uri, is_local=target.is_local, json=json)
    target.open().branches.delete(name, force=force)
    if json:
        say_json({"uri": target.uri, "name": name, **present(actor_id=actor())})
    else:
        say(f"deleted branch {name}")


@branch.command("merge", cls=Command)
def merge(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The branch to merge.")],
    uri: UriOption = None,
    into: Annotated[str, typer.Option("--into", metavar="BRANCH", help="The target branch.")] = "main",
    delete_branch: Annotated[
        bool, typer.Option("--delete-branch", help="Delete the merged branch afterwards.")
    ] = False,
    resolve: Resolve = None,
    resolve_file: ResolveFile = None,
    strict: Strict = False,
    dry_run: DryRun = False,
    engine: Annotated[
        Literal["auto", "local", "spark"],
        typer.Option("--engine", help="The engine: auto selects Spark for large merges if a session is active."),
    ] = "auto",
    json: Json = False,
) -> None:
    """Merge a branch into another in one commit.

    If there are conflicts (ours is --into, theirs is SOURCE), nothing is written unless all are resolved.

    $ omnigraph branch merge review --uri social.omni --delete-branch
    $ omnigraph branch merge review --uri social.omni --dry-run
    $ omnigraph branch merge review --uri social.omni --resolve theirs
    $ omnigraph branch merge review --uri social.omni --engine spark
    """
    resolver = resolver_of(resolve, resolve_file)
    graph = addressed(uri).open()
    try:
        merged = graph.merge(
            source,
            into=into,
            resolve=resolver,
            by_property=not strict,
            dry_run=dry_run,
            delete_branch=delete_branch,
            engine=engine,
        )
    except MergeConflicts as conflicts:
        if json:
            from omnigraph.cli.render.documents import conflicts_json

            say_json(conflicts_json(conflicts))
        raise
    _say_merged(merged, json=json, dry_run=dry_run)


def _say_merged(merged: "Merged", *, json: bool, dry_run: bool) -> None:
    from omnigraph.cli.render.documents import present

    if merged.kept_because is not None:
        note(f"warning: branch {merged.source} was merged but not deleted: {merged.kept_because}")
    if json:
        document = {
            "source": merged.source,
            "target": merged.target,
            "outcome": merged.kind,
            **present(actor_id=actor()),
        }
        counted = {"conflicts": merged.conflict_count} if dry_run else {}
        say_json({**document, **_schema(merged), **_fate(merged), **counted})
        return
    _say_schema(merged, dry_run=dry_run)
    if dry_run:
        say(f"would merge {merged.source} into {merged.target}: {merged.kind}, {merged.conflict_count} conflicts")
        say_conflicts(merged.conflicts, merged.more_conflicts)
        return
    say(f"merged {merged.source} into {merged.target}: {merged.kind}")
    if merged.source_deleted:
        say(f"deleted branch {merged.source}")


def _say_schema(merged: "Merged", *, dry_run: bool) -> None:
    """The schema steps of the target, and the values that the later schema has no property for."""
    for step in merged.schema_steps:
        say(f"schema of {merged.target}: {step}")
    say_left_out(merged.left_out, dry_run=dry_run)


def _schema(merged: "Merged") -> dict[str, Any]:
    steps = [each.to_dict() for each in merged.schema_steps]
    return {**({"schema_steps": steps} if steps else {}), **({"left_out": merged.left_out} if merged.left_out else {})}


def _fate(merged: "Merged") -> dict[str, Any]:
    """What became of the source, when it was to be deleted."""
    if merged.kept_because is not None:
        return {"branch_deleted": False, "branch_delete_error": merged.kept_because}
    return {"branch_deleted": True} if merged.source_deleted else {}
