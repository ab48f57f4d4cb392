"""`omnigraph commit`: the history of a branch, and single commits.

`omnigraph revert`: take back what a commit did, as a new commit.
"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.commands.changes import Kinds, Ops, Types, named
from omnigraph.cli.frame.arguments import (
    Branch,
    DryRun,
    Json,
    Resolve,
    ResolveFile,
    Strict,
    Uri,
    UriOption,
    conflicts_json,
    refuse_together,
    resolver_of,
    say_conflicts,
    say_left_out,
)
from omnigraph.cli.frame.graph_scope import addressed
from omnigraph.cli.frame.options import Command, Group
from omnigraph.cli.frame.output import is_terminal, say, say_json, show_table
from omnigraph.errors import InvalidInput, RevertConflicts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from omnigraph.graph.graph import Graph
    from omnigraph.history.merge.merge import Reverted
    from omnigraph.manifest.rows import GraphCommit

commit = typer.Typer(cls=Group, no_args_is_help=True, help="Show the history of a branch, and single commits.")
_FILTERS = ("actor", "branch")


@commit.command("list", cls=Command)
def list_commits(
    uri: Uri = None,
    branch: Branch = None,
    graph: Annotated[
        bool, typer.Option("--graph", help="Draw the commit graph; of all branches without --branch.")
    ] = False,
    filters: Annotated[
        list[str] | None,
        typer.Option("--filter", metavar="KEY=VALUE", help="Only commits with this actor or branch. Repeatable."),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="At most this many.")] = None,
    json: Json = False,
) -> None:
    """List commits, newest first.

    $ omnigraph commit list social.omni --limit 10
    $ omnigraph commit list social.omni --graph
    $ omnigraph commit list social.omni --filter actor=act-ada
    """
    refuse_together(graph=graph, json=json)
    wanted = dict(_filter(each) for each in filters or ())
    opened = addressed(uri).open(read_only=True)
    if graph:
        _draw(opened, branch, wanted, limit)
        return
    found = [each for each in opened.commits(branch=branch or "main") if _passes(each, wanted)][:limit]
    if json:
        from omnigraph.cli.render.documents import commit_json

        say_json({"commits": [commit_json(each) for each in found]})
    elif is_terminal():
        show_table(("commit", "branch", "version", "actor", "when"), [_row(each) for each in found])
    else:
        for each in found:
            say(_line(each))


@commit.command("show", cls=Command)
def show(
    commit_id: Annotated[str, typer.Argument(metavar="ID", help="The commit.")],
    uri: UriOption = None,
    json: Json = False,
) -> None:
    """Show one commit of any branch.

    $ omnigraph commit show 01M7GP1WZ52FYZDCM3NRT8NXYP --uri social.omni
    """
    from omnigraph.cli.render.documents import commit_json

    found = addressed(uri).open(read_only=True).commit(commit_id)
    if json:
        say_json(commit_json(found))
        return
    for name, value in ({"graph_commit_id": found.id, "graph_branch": found.branch} | commit_json(found)).items():
        say(f"{name}: {value}")


@commit.command("changes", cls=Command)
def changes(
    commit_id: Annotated[str, typer.Argument(metavar="ID", help="The commit.")],
    uri: UriOption = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="At most this many.")] = 1_000,
    page_token: Annotated[
        str | None, typer.Option("--page-token", metavar="TOKEN", help="Continue after an earlier page.")
    ] = None,
    kinds: Kinds = None,
    types: Types = None,
    ops: Ops = None,
    json: Json = False,
) -> None:
    """Show the changes of one commit against its first parent: every entity, before and after.

    $ omnigraph commit changes 01M7GP1WZ52FYZDCM3NRT8NXYP --uri social.omni
    $ omnigraph commit changes 01M7GP1WZ52FYZDCM3NRT8NXYP --uri social.omni --kind node --op update
    """
    from omnigraph.cli.render.changes import cause_json, change_json, change_lines
    from omnigraph.cli.render.documents import present

    chosen, happened = named(kinds, ops)
    found = addressed(uri).open(read_only=True).commit_changes(commit_id, types=types, kinds=chosen, ops=happened)
    some, token = found.page(limit, page_token)
    if json:
        document = {"cause": cause_json(found.commit), "changes": [change_json(each) for each in some]}
        say_json({**document, **present(next_page_token=token)})
        return
    for each in some:
        for line in change_lines(each):
            say(line)
    if token is not None:
        say(f"next page: {token}")


def _filter(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or key not in _FILTERS:
        raise InvalidInput(f"--filter {text}: write KEY=VALUE with one of the keys {', '.join(_FILTERS)}.")
    return key, value


def _passes(each: "GraphCommit", wanted: dict[str, str]) -> bool:
    held: dict[str, Any] = {"actor": each.actor, "branch": each.branch}
    return all(held[key] == value for key, value in wanted.items())


def _line(each: "GraphCommit") -> str:
    actor = f" actor={each.actor}" if each.actor is not None else ""
    return f"{each.id} graph_branch={each.branch} graph_manifest_version={each.manifest_version}{actor}"


def _row(each: "GraphCommit") -> tuple[object, ...]:
    return each.id, each.branch, each.manifest_version, each.actor, _when(each)


def _when(each: "GraphCommit") -> str:
    return each.created_at.strftime("%Y-%m-%d %H:%M:%S")


def _draw(opened: "Graph", branch: str | None, wanted: dict[str, str], limit: int | None) -> None:
    """The commits as a picture; commits that the filter excludes are drawn without text."""
    from omnigraph.cli.render.commit_graph import draw_graph

    branches = [branch] if branch is not None else [each.name for each in opened.branches.list()]
    histories = {name: opened.commits(branch=name) for name in branches}
    heads: dict[str, list[str]] = {}
    for name, history in histories.items():
        if history:
            heads.setdefault(history[0].id, []).append(name)
    everything = {each.id: each for history in histories.values() for each in history}
    for picture, each in _cut(draw_graph(everything.values()), limit):
        text = _commit_text(each, heads.get(each.id, [])) if each is not None and _passes(each, wanted) else ""
        say(f"{picture} {text}".rstrip())


def _cut(
    lines: "Iterable[tuple[str, GraphCommit | None]]", limit: int | None
) -> "Iterable[tuple[str, GraphCommit | None]]":
    count = 0
    for picture, each in lines:
        count += each is not None
        if limit is not None and count > limit:
            return
        yield picture, each


def _commit_text(each: "GraphCommit", heads: list[str]) -> str:
    names = f" ({', '.join(heads)})" if heads else ""
    return f"{each.id}{names} {_when(each)} {each.actor or ''}".rstrip()


def revert(
    commit_id: Annotated[str, typer.Argument(metavar="COMMIT", help="The commit to revert.")],
    uri: UriOption = None,
    branch: Branch = None,
    resolve: Resolve = None,
    resolve_file: ResolveFile = None,
    strict: Strict = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Revert a commit with a new commit.

    Later changes of the same entities are conflicts: ours is the current state, theirs that before the commit.

    $ omnigraph revert 01M7GP1WZ52FYZDCM3NRT8NXYP --uri social.omni --dry-run
    """
    resolver = resolver_of(resolve, resolve_file)
    graph = addressed(uri).open()
    try:
        done = graph.revert(
            commit_id, branch=branch or "main", resolve=resolver, by_property=not strict, dry_run=dry_run
        )
    except RevertConflicts as error:
        if json:
            found = conflicts_json(error.conflicts)
            say_json({"error": error.message, "code": "conflict", "merge_conflicts": found})
        raise
    _say_reverted(done, json=json, dry_run=dry_run)


def _say_reverted(done: "Reverted", *, json: bool, dry_run: bool) -> None:
    from omnigraph.cli.render.documents import commit_json

    if json:
        document: dict[str, Any] = {"reverted": done.reverted.id, "branch": done.branch}
        made = commit_json(done.commit) if done.commit is not None else None
        left_out = {"left_out": done.left_out} if done.left_out else {}
        say_json({**document, **({"conflicts": done.conflict_count} if dry_run else {"commit": made}), **left_out})
        return
    if dry_run:
        say(f"would revert {done.reverted.id} on {done.branch}: {_rows(done)}, {done.conflict_count} conflicts")
        say_conflicts(done.conflicts, done.more_conflicts)
    elif done.commit is None:
        say(f"nothing of {done.reverted.id} is left to revert on {done.branch}")
    else:
        say(f"reverted {done.reverted.id} on {done.branch}: {_rows(done)}, as commit {done.commit.id}")
    say_left_out(done.left_out, dry_run=dry_run)


def _rows(done: "Reverted") -> str:
    return f"{sum(done.puts.values())} entities put, {sum(done.deletes.values())} removed"
