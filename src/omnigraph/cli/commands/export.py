"""`omnigraph export`: one state of the graph as records or files."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from omnigraph.cli.frame.arguments import Branch, Uri, refuse_together
from omnigraph.cli.frame.graph_scope import GraphScope, addressed
from omnigraph.cli.frame.options import current
from omnigraph.cli.frame.output import note, say, working

if TYPE_CHECKING:
    from collections.abc import Iterator


def export(
    uri: Uri = None,
    branch: Branch = None,
    at: Annotated[str | None, typer.Option("--at", metavar="COMMIT", help="The state of this commit.")] = None,
    types: Annotated[
        list[str] | None, typer.Option("--type", metavar="TYPE", help="Only this node or edge type. Repeatable.")
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", metavar="PATH", help="Write to this file, or directory for parquet and csv.")
    ] = None,
    form: Annotated[
        Literal["jsonl", "parquet", "csv"], typer.Option("--format", help="Graph records, or a file per type.")
    ] = "jsonl",
    engine: Annotated[
        Literal["local", "spark"],
        typer.Option("--engine", help="spark writes many files in parallel to --out, a new directory or prefix."),
    ] = "local",
    jsonl: Annotated[bool, typer.Option("--jsonl", hidden=True, help="Has no effect: this is the default.")] = False,
) -> None:
    """Print the graph as JSONL records, or write files. Loading them into an empty graph gives the same graph.

    $ omnigraph export social.omni --type Person > people.jsonl
    $ omnigraph export social.omni --format parquet --out tables
    """
    refuse_together(branch=branch, at=at)
    if jsonl:
        note("warning: --jsonl has no effect: export prints JSONL")
    if out is None and form != "jsonl":
        current().fail(f"--format {form} makes several files: say where with --out.")
    if out is None and engine == "spark":
        current().fail("--engine spark makes several files: say where with --out.")
    target = addressed(uri)
    if out is None:
        for chunk in _records(target, branch or "main", at, types):
            typer.echo(chunk, nl=False)
        return
    graph = target.open(read_only=True)
    with working(f"exporting {target.uri}"):
        written = graph.export(out, branch=branch or "main", at=at, format=form, types=types, engine=engine)
    for path in written:
        say(str(path))


def _records(target: GraphScope, branch: str, at: str | None, types: list[str] | None) -> "Iterator[bytes]":
    """Straight to a pipe, a batch at a time: nothing is held and no file is needed."""
    from omnigraph.export.records import export_records
    from omnigraph.manifest.graph_manifest import open_stores
    from omnigraph.storage.objects.location import parse_location
    from omnigraph.world import REAL

    graph = target.open(read_only=True)
    snapshot = graph.snapshot(branch=branch, at=at)
    return export_records(
        snapshot, open_stores(parse_location(target.uri, REAL), REAL).tables, graph.catalog_of(snapshot), types=types
    )
