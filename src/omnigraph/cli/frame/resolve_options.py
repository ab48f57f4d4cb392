"""Conflict resolution options, `--resolve` and `--resolve-file`, and the report of conflicts that remain."""

import json as json_text
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from omnigraph.cli.frame.arguments import read_text, refuse_together
from omnigraph.cli.frame.output import say
from omnigraph.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from omnigraph.errors.commits import Conflict
    from omnigraph.history.merge.conflicts import Choice, Resolver

Resolve = Annotated[
    Literal["ours", "theirs"] | None, typer.Option("--resolve", help="Resolve every conflict in favour of one side.")
]
ResolveFile = Annotated[
    str | None,
    typer.Option(
        "--resolve-file", metavar="FILE", help='Resolve conflicts one by one: JSON {"node:Person/Ada": "theirs", …}.'
    ),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Two changes of one entity conflict, even of different properties.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the result without writing it.")]


def resolver_of(resolve: "Choice | None", file: str | None) -> "Resolver":
    """What the options say about conflicts."""
    refuse_together(resolve=resolve, resolve_file=file)
    if file is None:
        return resolve
    try:
        loaded = json_text.loads(read_text(file, "resolution file"))
    except ValueError as error:
        raise InvalidInput(f"the resolution file {file} is not JSON: {error}.") from error
    if not isinstance(loaded, dict) or not all(value in ("ours", "theirs") for value in loaded.values()):
        raise InvalidInput(
            f'the resolution file {file} must be a JSON object that gives each conflict, as "node:Person/Ada" or '
            '"*" for all others, "ours" or "theirs".'
        )
    return loaded


def say_conflicts(conflicts: "Iterable[Conflict]", more: int = 0) -> None:
    """A line for each, and one for those that are not listed."""
    for each in conflicts:
        say(f"  {'  ' if each.follows else ''}{each.kind} {each.table_key} {each.row_id}: {each.message}")
        if each.edges:
            others = f" and {each.more_edges} more" if each.more_edges else ""
            say(f"    with it: {', '.join(each.edges)}{others}")
    if more:
        say(f"  and {more} more")


def say_left_out(left_out: "Mapping[str, int]", *, dry_run: bool) -> None:
    """A line for each property that was dropped and whose values are left out."""
    for name, rows in left_out.items():
        say(f"{'would leave' if dry_run else 'left'} out {name} of {rows} {'row' if rows == 1 else 'rows'}")


def conflicts_json(conflicts: "Iterable[Conflict]") -> list[dict[str, Any]]:
    """Conflicts for programs."""
    return [conflict_json(each) for each in conflicts]


def conflict_json(conflict: "Conflict") -> dict[str, Any]:
    """One conflict, with its edges if it is about a node with edges, and its node if it follows one."""
    document = {
        "kind": conflict.kind,
        "type_key": conflict.table_key,
        "id": conflict.row_id,
        "message": conflict.message,
    }
    edges = {"edges": list(conflict.edges), "more_edges": conflict.more_edges} if conflict.edges else {}
    return {**document, **edges, **({"follows": conflict.follows} if conflict.follows else {})}
