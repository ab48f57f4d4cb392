"""`omnigraph diff`: what changed between two states of the graph."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.arguments import Json, UriOption
from omnigraph.cli.output import is_terminal, say, say_json, show_table
from omnigraph.cli.scopes import addressed

if TYPE_CHECKING:
    from omnigraph.versions.diff import DiffSummary


def diff(
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="A branch or a commit.")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="A branch or a commit.")],
    uri: UriOption = None,
    json: Json = False,
) -> None:
    """Count what was added, changed and removed between two branches or commits, by type."""
    found = addressed(uri).open(read_only=True).diff(before, after).summary()
    if json:
        say_json({"before": before, "after": after, "datasets": [_told(each) for each in found]})
    elif is_terminal():
        show_table(("type", "inserted", "updated", "deleted"), [tuple(_told(each).values()) for each in found])
    else:
        for each in found:
            say(f"{each.table_key} inserted={each.inserted} updated={each.updated} deleted={each.deleted}")


def _told(each: "DiffSummary") -> dict[str, Any]:
    counts = {"inserted": each.inserted, "updated": each.updated, "deleted": each.deleted}
    return {"type_key": each.table_key, **counts}
