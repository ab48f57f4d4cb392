"""`omnigraph query`: run a read and print its rows.

`omnigraph lint`: check the queries of a file against a schema.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from omnigraph.cli.frame.arguments import (
    Branch,
    Json,
    Params,
    ParamsFile,
    QueryFile,
    QueryText,
    Uri,
    parameters,
    query_source,
    read_text,
    refuse_together,
)
from omnigraph.cli.frame.config import settings
from omnigraph.cli.frame.graph_scope import GraphScope, addressed
from omnigraph.cli.frame.output import FAILED, say, say_json
from omnigraph.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.language.gq.lint import LintReport

_SEVERITIES = {"error": "ERROR", "warning": "WARN ", "info": "INFO "}


def lint(
    query: Annotated[str, typer.Option("--query", metavar="FILE", help="The file with queries.")],
    uri: Uri = None,
    schema: Annotated[
        str | None, typer.Option("--schema", metavar="FILE", help="Check against this schema file; no graph is needed.")
    ] = None,
    json: Json = False,
) -> None:
    """Check queries against a schema file or a graph's schema. The exit code is 1 if a query has errors.

    $ omnigraph lint --schema schema.pg --query queries.gq
    $ omnigraph lint social.omni --query queries.gq --json
    """
    text = read_text(query, "query file")
    source, catalog = _schema(uri, schema)
    from omnigraph.language.gq.lint import lint as check

    report = check(text, catalog, query_path=query, schema_source=source)
    say_json(report.to_json()) if json else _say(report)
    if not report.ok:
        raise typer.Exit(FAILED)


def _schema(uri: str | None, schema: str | None) -> "tuple[dict[str, str], Catalog]":
    if schema is not None:
        from omnigraph.language.schema.compile import compile_schema

        return {"kind": "file", "path": schema}, compile_schema(read_text(schema, "schema file"), schema)
    target = addressed(uri)
    return {"kind": "graph", "uri": target.uri}, target.open(read_only=True).catalog


def _say(report: "LintReport") -> None:
    for each in report.results:
        say(f"ERROR query `{each.name}`: {each.error}" if each.error else f"OK    query `{each.name}` ({each.kind})")
        for warning in each.warnings:
            say(f"WARN  query `{each.name}`: {warning}")
    for finding in report.findings:
        say(f"{_SEVERITIES[finding.severity]} {finding.code} {finding.message}")
    counts = f"{report.errors} error(s), {report.warnings} warning(s), {report.infos} info item(s)"
    say(f"INFO  Lint complete: {len(report.results)} queries processed ({counts})")


Format = Literal["table", "kv", "csv", "jsonl", "json"]


def query(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The name of the query to run.")] = None,
    query: QueryFile = None,
    query_string: QueryText = None,
    params: Params = None,
    params_file: ParamsFile = None,
    branch: Branch = None,
    snapshot: Annotated[
        str | None, typer.Option("--snapshot", metavar="ID", help="Read the state of this commit.")
    ] = None,
    form: Annotated[
        Format | None, typer.Option("--format", help="The output format; default: that of the configuration, or table.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", min=0, help="Cancel the query after this time.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Print the plan of the query without running it.")] = False,
    analyze: Annotated[
        bool, typer.Option("--analyze", help="Run the query and print the rows and time of each operator.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Run a query and print its rows. The query reads one snapshot of the graph.

    $ omnigraph query friends --query queries.gq --params '{"name": "Ada"}' --store social.omni
    $ omnigraph query -e 'query q() { match { $p: Person } return { $p.name } }' --store social.omni --format csv
    $ omnigraph query friends --query queries.gq --params-file ada.json --store social.omni --explain
    """
    from omnigraph.language.gq.syntax.parse import parse_queries

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
    arguments = QueryArguments(target, source, chosen.name, values, branch or "main", snapshot, timeout)
    if explain or analyze:
        _say_plan(arguments, analyze=analyze, json=json)
    else:
        _say_rows(arguments, "json" if json else form)


@dataclass(frozen=True)
class QueryArguments:
    """A read as the command line gave it."""

    target: GraphScope
    source: str
    name: str
    values: "Mapping[str, object]"
    branch: str
    snapshot: str | None
    timeout: float | None

    @property
    def target_json(self) -> dict[str, str]:
        """The branch or snapshot that was read, as the output names it."""
        return {"branch": self.branch} if self.snapshot is None else {"snapshot": self.snapshot}


def _say_rows(arguments: QueryArguments, form: Format | None) -> None:
    from omnigraph.cli.render.rows import ReadOutput, TableStyle, render, stream_lines
    from omnigraph.query.exec.limits import ReadOptions
    from omnigraph.query.result.result import json_rows

    graph = arguments.target.open(read_only=True)
    # Taken first, so that the commit that is printed is the one that was read.
    state = graph.snapshot(branch=arguments.branch, at=arguments.snapshot)
    options, defaults = ReadOptions(timeout=arguments.timeout), settings().defaults
    wanted = form or defaults.output or "table"
    if wanted in ("csv", "jsonl"):
        reader = graph.stream(arguments.source, arguments.values, at=state, name=arguments.name, options=options)
        for line in stream_lines(arguments.name, arguments.target_json, reader, wanted):
            say(line)
        return
    result = graph.query(arguments.source, arguments.values, at=state, name=arguments.name, options=options)
    rows = json_rows(result.to_arrow(), large_integers_as_text=True)
    output = ReadOutput(arguments.name, arguments.target_json, result.columns, rows, state.commit_id)
    style = TableStyle(defaults.table_max_column_width, defaults.table_cell_layout)
    for line in render(output, wanted, style):
        say(line)


def _say_plan(arguments: QueryArguments, *, analyze: bool, json: bool) -> None:
    from omnigraph.query.exec.limits import ReadOptions

    graph = arguments.target.open(read_only=True)
    state = graph.snapshot(branch=arguments.branch, at=arguments.snapshot)
    options = ReadOptions(timeout=arguments.timeout)
    if analyze:
        _, plan = graph.analyze(arguments.source, arguments.values, at=state, name=arguments.name, options=options)
    else:
        plan = graph.explain(arguments.source, arguments.values, at=state, name=arguments.name, options=options)
    if json:
        steps = [line.to_dict() for line in plan.lines]
        say_json(
            {"query_name": arguments.name, "target": arguments.target_json, "analyzed": analyze, "operators": steps}
        )
    else:
        say(str(plan))
