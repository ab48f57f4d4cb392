"""`omnigraph changes`: the change feed of a branch, and a baseline to begin it with."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.frame.arguments import Branch, Json, UriOption, refuse_together
from omnigraph.cli.frame.graph_scope import addressed
from omnigraph.cli.frame.options import Command, Group
from omnigraph.cli.frame.output import say, say_json
from omnigraph.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.graph.graph import Graph
    from omnigraph.history.change_feed import ChangePage
    from omnigraph.history.changes import ChangeOp, EntityKind, Only

changes = typer.Typer(
    cls=Group, no_args_is_help=True, help="Read the changes of a branch, commit by commit, from any position."
)


class KindName(StrEnum):
    """Nodes or edges."""

    node = "node"
    edge = "edge"


class OpName(StrEnum):
    """What can happen to an entity."""

    insert = "insert"
    update = "update"
    delete = "delete"


Kinds = Annotated[list[KindName] | None, typer.Option("--kind", help="Only nodes, or only edges. Repeatable.")]
Types = Annotated[list[str] | None, typer.Option("--type", metavar="TYPE", help="Only this type. Repeatable.")]
Ops = Annotated[list[OpName] | None, typer.Option("--op", help="Only this operation. Repeatable.")]
_PAGE = 1_000


@changes.command("poll", cls=Command)
def poll(
    uri: UriOption = None,
    branch: Branch = None,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="CURSOR", help="Continue after an earlier poll.")
    ] = None,
    start: Annotated[
        str | None, typer.Option("--start", metavar="WHERE", help="now (the default), beginning, or after:COMMIT.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="At most this many.")] = None,
    kinds: Kinds = None,
    types: Types = None,
    ops: Ops = None,
    json: Json = False,
) -> None:
    """Print the changes since a cursor, commit by commit, and the cursor to continue from.

    $ omnigraph changes poll --uri social.omni --start beginning
    $ omnigraph changes poll --uri social.omni --start after:01M7GP1WZ52FYZDCM3NRT8NXYP --type Person
    """
    refuse_together(cursor=cursor, start=start)
    graph = addressed(uri).open(read_only=True)
    feed = graph.change_feed(branch=branch or "main")
    pages = _pages(graph, branch or "main", cursor or _since(start), limit, feed.only(types, *named(kinds, ops)))
    if json:
        _say_json(list(pages))
        return
    last = None
    for page in pages:
        _say_page(page)
        last = page
    assert last is not None
    say(f"cursor: {last.cursor}")


@changes.command("baseline", cls=Command)
def baseline(
    out: Annotated[str, typer.Option("--out", metavar="PATH", help="The file to write; it is replaced atomically.")],
    uri: UriOption = None,
    branch: Branch = None,
    kinds: Kinds = None,
    types: Types = None,
    json: Json = False,
) -> None:
    """Write the newest state of a branch as records, and print the cursor of the changes after it.

    $ omnigraph changes baseline --uri social.omni --out copy.jsonl
    """
    from omnigraph.cli.frame.output import replace_whole_file

    graph = addressed(uri).open(read_only=True)
    only = graph.change_feed(branch=branch or "main").only(types, *named(kinds, None))
    taken = graph.baseline(branch=branch or "main", types=None if only.table_keys is None else sorted(only.table_keys))
    replace_whole_file(out, taken.records())
    if json:
        say_json({"baseline": {"snapshot_commit_id": taken.commit_id, "resume_cursor": taken.cursor}, "out": out})
        return
    say(f"wrote {out} as of commit {taken.commit_id}")
    say(f"cursor: {taken.cursor}")


def named(
    kinds: list[KindName] | None, ops: list[OpName] | None
) -> "tuple[list[EntityKind] | None, list[ChangeOp] | None]":
    """The filters as the engine names them."""
    return (
        None if kinds is None else [each.value for each in kinds],
        None if ops is None else [each.value for each in ops],
    )


def _since(start: str | None) -> str | None:
    if start is None or start == "now":
        return None
    if start == "beginning":
        return start
    word, separator, commit_id = start.partition(":")
    if word == "after" and separator and commit_id:
        return commit_id
    raise InvalidInput(f"--start {start}: write now, beginning, or after:COMMIT.")


def _pages(graph: "Graph", branch: str, since: str | None, limit: int | None, only: "Only") -> "Iterator[ChangePage]":
    """Page after page until the branch's newest commit, or until there are enough."""
    feed, left = graph.change_feed(branch=branch), limit
    while True:
        page = feed.page(since, limit=min(_PAGE, left or _PAGE), only=only)
        yield page
        since = page.cursor
        left = None if left is None else left - len(page)
        if page.caught_up or left == 0:
            return


def _say_page(page: "ChangePage") -> None:
    from omnigraph.cli.render.changes import change_lines, when

    for commit, some in page.blocks:
        say(f"commit {commit.id} {when(commit)} {commit.actor or ''}".rstrip())
        for change in some:
            for line in change_lines(change):
                say(f"  {line}")


def _say_json(pages: "list[ChangePage]") -> None:
    from omnigraph.cli.render.changes import blocks_json

    everything = (change for page in pages for change in page)
    say_json({"blocks": blocks_json(everything), "cursor": pages[-1].cursor, "caught_up": pages[-1].caught_up})
