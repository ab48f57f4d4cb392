"""`omnigraph snapshot`: which version of each table makes up the graph."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.frame.arguments import Branch, Json, Uri, refuse_together
from omnigraph.cli.frame.graph_scope import addressed
from omnigraph.cli.frame.output import is_terminal, say, say_json, show_table

if TYPE_CHECKING:
    from omnigraph.manifest.snapshot import Snapshot


def snapshot(
    uri: Uri = None,
    branch: Branch = None,
    at: Annotated[str | None, typer.Option("--at", metavar="COMMIT", help="The state of this commit.")] = None,
    json: Json = False,
) -> None:
    """Show the version of each table of a snapshot. The number of entities of each table is included.

    $ omnigraph snapshot social.omni
    $ omnigraph snapshot social.omni --at 01M7GP1WZ52FYZDCM3NRT8NXYP --json
    """
    refuse_together(branch=branch, at=at)
    target = addressed(uri)
    found = target.open(read_only=True).snapshot(branch=branch or "main", at=at)
    document = _snapshot_json(found, _format_version(target.uri, found.branch))
    if json:
        say_json(document)
    elif is_terminal():
        _show(document)
    else:
        _say(document)


def _format_version(uri: str, branch: str) -> int:
    """The format that the branch is in, which an older release may have written."""
    from omnigraph.manifest.graph_manifest import open_stores
    from omnigraph.manifest.layout import MANIFEST, physical_branch, read_format_version
    from omnigraph.storage.objects.location import parse_location
    from omnigraph.world import REAL

    tables = open_stores(parse_location(uri, REAL), REAL).tables
    return read_format_version(tables.open_newest(MANIFEST, physical_branch(branch)))


def _snapshot_json(found: "Snapshot", format_version: int) -> dict[str, Any]:
    from omnigraph.cli.render.documents import kind_and_name, present

    datasets = [
        present(
            entity_kind=kind_and_name(each.table_key)[0],
            type_name=kind_and_name(each.table_key)[1],
            dataset_path=each.path,
            published_dataset_version=each.version,
            native_dataset_branch=each.branch,
            entity_count=each.row_count,
        )
        for each in sorted(found, key=lambda each: each.table_key)
    ]
    return {
        "graph_branch": found.branch,
        "graph_manifest_version": found.manifest_version,
        "internal_schema_version": format_version,
        "datasets": datasets,
    }


def _say(document: dict[str, Any]) -> None:
    for name in ("graph_branch", "graph_manifest_version", "internal_schema_version"):
        say(f"{name}: {document[name]}")
    for each in document["datasets"]:
        say(
            f"{each['entity_kind']} type '{each['type_name']}' "
            f"published_dataset_version={each['published_dataset_version']} "
            f"native_dataset_branch={each.get('native_dataset_branch', 'main')} entities={each['entity_count']}"
        )


def _show(document: dict[str, Any]) -> None:
    rows = [
        (
            each["entity_kind"],
            each["type_name"],
            each["entity_count"],
            each["published_dataset_version"],
            each.get("native_dataset_branch", "main"),
        )
        for each in document["datasets"]
    ]
    title = f"branch {document['graph_branch']}, manifest version {document['graph_manifest_version']}"
    show_table(("kind", "type", "entities", "version", "branch"), rows, title=title)
