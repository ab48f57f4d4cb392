"""`omnigraph query`: run a read and print its rows."""

from dataclasses import dataclass
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
from omnigraph.cli.output import say, say_json
from omnigraph.cli.scopes import Target, addressed
from omnigraph.cli.settings import settings
from omnigraph.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    explain: Annotated[
        bool, typer.Option("--explain", help="Print how the query would run, and do not run it.")
    ] = False,
    analyze: Annotated[
        bool, typer.Option("--analyze", help="Run the query, and print rows and time of each operator.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Run a query and print its rows. It sees one state of the graph, whatever is written meanwhile.

    $ omnigraph query friends --query queries.gq --params '{"name": "Ada"}' --store social.omni
    $ omnigraph query -e 'query q() { match { $p: Person } return { $p.name } }' --store social.omni --format csv
    $ omnigraph query friends --query queries.gq --params-file ada.json --store social.omni --explain
    """
    from omnigraph.language.query import parse_queries

    refuse_together(branch=branch, snapshot=snapshot)
    refuse_together(format=form, json=json)
    refuse_together(explain=explain, analyze=analyze)
    refuse_together(format=form, explain=explain)
    refuse_together(format=form, analyze=analyze)
    source = query_source(query, query_string, "query")
    values = parameters(params, params_file)
    target = addressed()
    chosen = parse_queries(source, query or "<query>").select(name)
    if chosen.is_mutation:
        raise InvalidInput(f"query {chosen.name!r} contains mutations: run it with `omnigraph mutate`.")
    asked = Asked(target, source, chosen.name, values, branch or "main", snapshot, timeout)
    if explain or analyze:
        _say_plan(asked, analyze=analyze, json=json)
    else:
        _say_rows(asked, "json" if json else form)


@dataclass(frozen=True)
class Asked:
    """A read as the command line gave it."""

    target: Target
    source: str
    name: str
    values: "Mapping[str, object]"
    branch: str
    snapshot: str | None
    timeout: float | None

    @property
    def place(self) -> dict[str, str]:
        """What was read, for the output."""
        return {"branch": self.branch} if self.snapshot is None else {"snapshot": self.snapshot}


def _say_rows(asked: Asked, form: Format | None) -> None:
    from omnigraph.cli.read_formats import ReadOutput, TableStyle, render
    from omnigraph.cli.read_streams import stream_lines
    from omnigraph.read.options import ReadOptions
    from omnigraph.read.result_json import json_rows

    graph = asked.target.open(read_only=True)
    # Taken first, so that the commit that is told is the one that was read.
    state = graph.snapshot(branch=asked.branch, commit_id=asked.snapshot)
    options, defaults = ReadOptions(timeout=asked.timeout), settings().defaults
    wanted = form or defaults.output or "table"
    if wanted in ("csv", "jsonl"):
        reader = graph.stream(asked.source, asked.values, snapshot=state, name=asked.name, options=options)
        for line in stream_lines(asked.name, asked.place, reader, wanted):
            say(line)
        return
    result = graph.query(asked.source, asked.values, snapshot=state, name=asked.name, options=options)
    rows = json_rows(result.to_arrow(), large_integers_as_text=True)
    output = ReadOutput(asked.name, asked.place, result.columns, rows, state.commit_id)
    style = TableStyle(defaults.table_max_column_width, defaults.table_cell_layout)
    for line in render(output, wanted, style):
        say(line)


def _say_plan(asked: Asked, *, analyze: bool, json: bool) -> None:
    from omnigraph.read.options import ReadOptions

    graph = asked.target.open(read_only=True)
    state = graph.snapshot(branch=asked.branch, commit_id=asked.snapshot)
    options = ReadOptions(timeout=asked.timeout)
    if analyze:
        _, plan = graph.analyze(asked.source, asked.values, snapshot=state, name=asked.name, options=options)
    else:
        plan = graph.explain(asked.source, asked.values, snapshot=state, name=asked.name, options=options)
    if json:
        steps = [line.to_json() for line in plan.lines]
        say_json({"query_name": asked.name, "target": asked.place, "analyzed": analyze, "operators": steps})
    else:
        say(str(plan))
