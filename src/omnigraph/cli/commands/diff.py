"""`omnigraph diff`: what changed between two states of the graph."""

from json import dumps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.frame.arguments import Json, UriOption
from omnigraph.cli.frame.graph_scope import addressed
from omnigraph.cli.frame.output import is_terminal, say, say_json, show_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.history.delta import GraphDiff, TableDelta


def diff(
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="A branch or a commit.")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="A branch or a commit.")],
    uri: UriOption = None,
    rows: Annotated[bool, typer.Option("--rows", help="Show every entity that differs, not only the counts.")] = False,
    json: Json = False,
) -> None:
    """Show the differences between two branches or commits. Inserted, updated and deleted entities are counted by type.

    $ omnigraph diff main review --uri social.omni
    $ omnigraph diff 01M7GP1WZ52FYZDCM3NRT8NXYP main --uri social.omni --json
    """
    found = addressed(uri).open(read_only=True).diff(before, after)
    if json:
        say_json({"before": before, "after": after, "datasets": list(_datasets(found, rows=rows))})
    elif rows:
        _show_rows(found) if is_terminal() else _say_rows(found)
    else:
        _say_counts(found)


def _datasets(found: "GraphDiff", *, rows: bool) -> "Iterator[dict[str, Any]]":
    for delta in found:
        counts = {"inserted": delta.inserted.num_rows, "updated": delta.updated[1].num_rows}
        document = {"type_key": delta.table_key, **counts, "deleted": delta.deleted.num_rows}
        yield {**document, "changes": list(_changes(delta))} if rows else document


def _say_counts(found: "GraphDiff") -> None:
    summary = found.summary()
    if is_terminal():
        counted = [(each.table_key, each.inserted, each.updated, each.deleted) for each in summary]
        show_table(("type", "inserted", "updated", "deleted"), counted)
        return
    for each in summary:
        say(f"{each.table_key} inserted={each.inserted} updated={each.updated} deleted={each.deleted}")


def _show_rows(found: "GraphDiff") -> None:
    """A line for each property that differs; what is the same as above is left out."""
    rows: list[tuple[object, ...]] = []
    for delta in found:
        for change in _changes(delta):
            named: tuple[object, ...] = (change["op"], delta.table_key, change["id"])
            for name, old, new in _differing(change):
                rows.append((*named, name, old, new))
                named = ("", "", "")
            if named[0]:
                rows.append((*named, "", "", ""))
    show_table(("change", "type", "id", "property", "before", "after"), rows)


def _say_rows(found: "GraphDiff") -> None:
    for delta in found:
        for change in _changes(delta):
            say(f"{change['op']} {delta.table_key} {change['id']}")
            for line in _differences(change):
                say(f"  {line}")


def _differences(change: dict[str, Any]) -> "Iterator[str]":
    for name, *values in _differing(change):
        yield f"{name}: {' → '.join(each for each in values if each is not None)}"


def _differing(change: dict[str, Any]) -> "Iterator[tuple[str, str | None, str | None]]":
    """The properties that differ, with their values as texts; None for a side on which the entity is not."""
    before, after = change.get("before", {}), change.get("after", {})
    for name in {**before, **after}:
        old, new = before.get(name), after.get(name)
        if name != "id" and old != new:
            yield name, _display_text(old) if before else None, _display_text(new) if after else None


def _display_text(value: Any) -> str:
    return value if isinstance(value, str) else dumps(value, ensure_ascii=False)


def _changes(delta: "TableDelta") -> "Iterator[dict[str, Any]]":
    """Every entity that differs, with its values before and after; inserts first, then updates, then deletes."""
    for row in _rows(delta.inserted):
        yield {"op": "insert", "id": row["id"], "after": row}
    for old, new in zip(_rows(delta.updated[0]), _rows(delta.updated[1]), strict=True):
        yield {"op": "update", "id": new["id"], "before": old, "after": new}
    for row in _rows(delta.deleted):
        yield {"op": "delete", "id": row["id"], "before": row}


def _rows(table: Any) -> list[dict[str, Any]]:
    from omnigraph.query.result.result import json_rows

    return json_rows(table, large_integers_as_text=True)
