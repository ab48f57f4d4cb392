"""`omnigraph tag`: names of commits, which keep them from being cleaned up."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.frame.arguments import Branch, Json, Uri, UriOption, refuse_together
from omnigraph.cli.frame.graph_scope import addressed
from omnigraph.cli.frame.options import Command, Group
from omnigraph.cli.frame.output import is_terminal, say, say_json, show_table

if TYPE_CHECKING:
    from omnigraph.manifest.tags import Tag

tag = typer.Typer(cls=Group, no_args_is_help=True, help="Name commits; cleanup retains tagged commits.")
Name = Annotated[str, typer.Argument(metavar="NAME", help="The tag.")]


@tag.command("create", cls=Command)
def create(
    name: Name,
    uri: UriOption = None,
    at: Annotated[str | None, typer.Option("--at", metavar="COMMIT", help="The commit.")] = None,
    branch: Branch = None,
    message: Annotated[str | None, typer.Option("--message", "-m", metavar="TEXT", help="A description.")] = None,
    json: Json = False,
) -> None:
    """Name a commit, or the newest one of a branch.

    $ omnigraph tag create v1 --uri social.omni -m 'the first'
    """
    refuse_together(at=at, branch=branch)
    made = addressed(uri).open().tags.create(name, at, branch=branch or "main", message=message)
    if json:
        say_json(_json(made))
    else:
        say(f"created tag {made.name} on commit {made.commit_id}")


@tag.command("list", cls=Command)
def list_tags(uri: Uri = None, json: Json = False) -> None:
    """List the tags, by name.

    $ omnigraph tag list social.omni
    """
    found = addressed(uri).open(read_only=True).tags.list()
    if json:
        say_json({"tags": [_json(each) for each in found]})
    elif is_terminal():
        rows = [(each.name, each.commit_id, each.branch, _when(each), each.message) for each in found]
        show_table(("tag", "commit", "branch", "when", "message"), rows)
    else:
        for each in found:
            say(f"{each.name} {each.commit_id}")


@tag.command("delete", cls=Command)
def delete(name: Name, uri: UriOption = None, json: Json = False) -> None:
    """Remove a tag. The commit stays until a cleanup finds that nothing keeps it.

    $ omnigraph tag delete v1 --uri social.omni
    """
    addressed(uri).open().tags.delete(name)
    if json:
        say_json({"name": name})
    else:
        say(f"deleted tag {name}")


def _json(each: "Tag") -> dict[str, Any]:
    from omnigraph.cli.render.documents import present

    return present(
        name=each.name,
        graph_commit_id=each.commit_id,
        graph_branch=each.branch,
        actor_id=each.actor,
        message=each.message,
        created_at=each.created_us,
    )


def _when(each: "Tag") -> str:
    return each.created_at.strftime("%Y-%m-%d %H:%M:%S")
