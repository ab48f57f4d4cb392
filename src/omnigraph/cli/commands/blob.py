"""`omnigraph blob`: the bytes of one blob, and its size and ETag."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from omnigraph.cli.frame.arguments import Branch, Json, UriOption, refuse_together
from omnigraph.cli.frame.graph_scope import addressed
from omnigraph.cli.frame.options import Command, Group
from omnigraph.cli.frame.output import say, say_json
from omnigraph.errors import InvalidInput

if TYPE_CHECKING:
    from omnigraph.query.blob import Blob

blob = typer.Typer(cls=Group, no_args_is_help=True, help="Read the blobs of nodes and edges.")
Entity = Annotated[Literal["node", "edge"], typer.Argument(metavar="ENTITY", help="node or edge.")]
Type = Annotated[str, typer.Argument(metavar="TYPE", help="Its type.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="Its id.")]
PropertyName = Annotated[str, typer.Argument(metavar="PROPERTY", help="The property that is a Blob.")]
SnapshotId = Annotated[str | None, typer.Option("--snapshot", metavar="ID", help="Read the state of this commit.")]


@blob.command("get", cls=Command)
def get(
    entity: Entity,
    type_name: Type,
    entity_id: Id,
    property_name: PropertyName,
    uri: UriOption = None,
    branch: Branch = None,
    snapshot: SnapshotId = None,
    offset: Annotated[int, typer.Option("--offset", metavar="N", help="Begin at this byte.")] = 0,
    length: Annotated[int | None, typer.Option("--length", metavar="N", help="At most so many bytes.")] = None,
    out: Annotated[str | None, typer.Option("--out", metavar="PATH", help="Write to a file.")] = None,
) -> None:
    """Print the bytes of a blob, or a part of them.

    $ omnigraph blob get node Document d-1 content --store library.omni --out d-1.pdf
    $ omnigraph blob get node Document d-1 content --store library.omni --offset 0 --length 100
    """
    _refuse_impossible(offset, length)
    found, _ = _open(entity, type_name, entity_id, property_name, uri, branch, snapshot)
    chunks = found.chunks(offset, length)
    if out is None:
        for chunk in chunks:
            sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
        return
    first = next(chunks, b"")
    with Path(out).open("wb") as file:
        file.write(first)
        file.writelines(chunks)


@blob.command("stat", cls=Command)
def stat(
    entity: Entity,
    type_name: Type,
    entity_id: Id,
    property_name: PropertyName,
    uri: UriOption = None,
    branch: Branch = None,
    snapshot: SnapshotId = None,
    json: Json = False,
) -> None:
    """Show the storage class, the size and the ETag of a blob.

    $ omnigraph blob stat node Document d-1 content --store library.omni
    """
    from omnigraph.cli.render.documents import present

    found, target = _open(entity, type_name, entity_id, property_name, uri, branch, snapshot)
    selector = {"entity": entity, "type": type_name, "id": entity_id, "property": property_name}
    document = present(kind=found.kind, size=found.size, etag=found.etag, uri=found.uri)
    if json:
        say_json({"selector": selector, **document, "target": target})
        return
    for name, value in document.items():
        say(f"{name}: {value}")


def _open(
    entity: str,
    type_name: str,
    entity_id: str,
    property_name: str,
    uri: str | None,
    branch: str | None,
    snapshot: str | None,
) -> tuple["Blob", dict[str, Any]]:
    from omnigraph.cli.render.documents import present

    refuse_together(branch=branch, snapshot=snapshot)
    graph = addressed(uri).open(read_only=True)
    state = graph.snapshot(branch=branch or "main", at=snapshot)
    catalog = graph.catalog_of(state)
    if type_name not in (catalog.nodes if entity == "node" else catalog.edges):
        raise InvalidInput(f"the graph has no {entity} type {type_name!r}.")
    found = graph.blob(type_name, entity_id, property_name, at=state)
    where = None if snapshot is not None else branch or "main"
    return found, present(branch=where, snapshot=snapshot, resolved_snapshot=state.commit_id)


def _refuse_impossible(offset: int, length: int | None) -> None:
    """Before anything is read: a range must begin at byte 0 or later, and its end must fit in 63 bits."""
    if offset < 0 or (length is not None and length <= 0):
        raise InvalidInput("a part of a blob begins at --offset 0 or later, and --length is at least 1.")
    if offset + (length or 0) >= 2**63:
        raise InvalidInput("--offset and --length reach further than any blob does.")
