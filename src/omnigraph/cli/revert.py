"""`omnigraph revert`: take back what a commit did, as a new commit."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.arguments import Branch, Json, UriOption
from omnigraph.cli.output import say, say_json
from omnigraph.cli.scopes import addressed
from omnigraph.cli.settling import (
    DryRun,
    Resolve,
    ResolveFile,
    Strict,
    conflicts_json,
    resolver_of,
    say_conflicts,
    say_left_out,
)
from omnigraph.errors import RevertConflicts

if TYPE_CHECKING:
    from omnigraph.versions.revert import Reverted


def revert(
    commit_id: Annotated[str, typer.Argument(metavar="COMMIT", help="The commit to take back.")],
    uri: UriOption = None,
    branch: Branch = None,
    resolve: Resolve = None,
    resolve_file: ResolveFile = None,
    strict: Strict = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Take back what a commit did, as a new commit.

    What was changed again since is a conflict: ours is the branch as it is, theirs as it was before the commit.

    $ omnigraph revert 01M7GP1WZ52FYZDCM3NRT8NXYP --uri social.omni --dry-run
    """
    settled = resolver_of(resolve, resolve_file)
    graph = addressed(uri).open()
    try:
        done = graph.revert(
            commit_id, branch=branch or "main", resolve=settled, by_property=not strict, dry_run=dry_run
        )
    except RevertConflicts as error:
        if json:
            found = conflicts_json(error.conflicts)
            say_json({"error": error.message, "code": "conflict", "merge_conflicts": found})
        raise
    _tell(done, json=json, dry_run=dry_run)


def _tell(done: "Reverted", *, json: bool, dry_run: bool) -> None:
    from omnigraph.cli.wire import commit_json

    if json:
        told: dict[str, Any] = {"reverted": done.reverted.id, "branch": done.branch}
        made = commit_json(done.commit) if done.commit is not None else None
        left_out = {"left_out": done.left_out} if done.left_out else {}
        say_json({**told, **({"conflicts": done.conflict_count} if dry_run else {"commit": made}), **left_out})
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
