"""`omnigraph query`: run a read and print its rows."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from omnigraph.cli.arguments import (
    Branch,
    Params,
    ParamsFile,
    QueryFile,
    QueryText,
    parameters,
    query_source,
    refuse_together,
)
from omnigraph.cli.output import say
from omnigraph.cli.scopes import Target, addressed
from omnigraph.cli.settings import settings
from omnigraph.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.cli.read_formats import ReadOutput

Format = Literal["table", "kv", "csv", "jsonl", "json"]


def query(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Which query of the source to run.")] = None,
    query: QueryFile = None,
    query_string: QueryText = None,
    params: Params = None,
    params_file: ParamsFile = None,
    branch: Branch = None,
    snapshot: Annotated[
        str | None, typer.Option("--snapshot", metavar="ID", help="Read the graph as of this commit.")
    ] = None,
    form: Annotated[
        Format | None, typer.Option("--format", help="How to print the rows; the configuration's, or table.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", min=0, help="Give up after so long.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Run a query and print its rows. It sees one state of the graph, whatever is written meanwhile."""
    from omnigraph.cli.read_formats import TableStyle, render
    from omnigraph.language.query import parse_queries

    refuse_together(branch=branch, snapshot=snapshot)
    refuse_together(format=form, json=json)
    source = query_source(query, query_string, "query")
    values = parameters(params, params_file)
    target = addressed()
    chosen = parse_queries(source, query or "<query>").select(name)
    if chosen.is_mutation:
        raise InvalidInput(f"query {chosen.name!r} contains mutations: run it with `omnigraph mutate`.")
    output = _read(target, source, chosen.name, values, branch or "main", snapshot, timeout)
    defaults = settings().defaults
    style = TableStyle(defaults.table_max_column_width, defaults.table_cell_layout)
    for line in render(output, "json" if json else form or defaults.output or "table", style):
        say(line)


def _read(
    target: Target,
    source: str,
    name: str,
    values: "Mapping[str, object]",
    branch: str,
    snapshot: str | None,
    timeout: float | None,
) -> "ReadOutput":
    from omnigraph.cli.read_formats import ReadOutput
    from omnigraph.read.options import ReadOptions
    from omnigraph.read.result_json import json_rows

    graph = target.open(read_only=True)
    # Taken first, so that the commit that is told is the one that was read.
    state = graph.snapshot(branch=branch, commit_id=snapshot)
    result = graph.query(source, values, snapshot=state, name=name, options=ReadOptions(timeout=timeout))
    rows = json_rows(result.to_arrow(), large_integers_as_text=True)
    place = {"branch": branch} if snapshot is None else {"snapshot": snapshot}
    return ReadOutput(name, place, result.columns, rows, state.commit_id)
