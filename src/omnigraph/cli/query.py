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
    from omnigraph.language.query import CheckedQuery, Query
    from omnigraph.language.schema import Catalog

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
    output = _read(target, chosen, values, branch or "main", snapshot)
    defaults = settings().defaults
    style = TableStyle(defaults.table_max_column_width, defaults.table_cell_layout)
    for line in render(output, "json" if json else form or defaults.output or "table", style):
        say(line)


def _read(
    target: Target, chosen: "Query", values: "Mapping[str, object]", branch: str, snapshot: str | None
) -> "ReadOutput":
    from omnigraph.cli.read_formats import ReadOutput
    from omnigraph.language.query import bind_params
    from omnigraph.manifest.graph_manifest import open_stores
    from omnigraph.read.query import run_query
    from omnigraph.read.result_json import json_rows
    from omnigraph.store.location import parse_location

    graph = target.open(read_only=True)
    checked = _checked(chosen, graph.catalog)
    state = graph.snapshot(branch=branch, commit_id=snapshot)
    tables = open_stores(parse_location(target.uri)).tables
    result = run_query(state, tables, graph.catalog, checked, bind_params(checked, values))
    rows = json_rows(result.to_arrow(), large_integers_as_text=True)
    place = {"branch": branch} if snapshot is None else {"snapshot": snapshot}
    return ReadOutput(chosen.name, place, result.columns, rows, state.commit_id)


def _checked(chosen: "Query", catalog: "Catalog") -> "CheckedQuery":
    from omnigraph.language.query import check_query
    from omnigraph.language.query.checked import CheckedQuery

    checked = check_query(chosen, catalog)
    if not isinstance(checked, CheckedQuery):
        raise InvalidInput(f"query {chosen.name!r} contains mutations: run it with `omnigraph mutate`.")
    return checked
