"""`omnigraph lint`: check the queries of a file against a schema."""

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.arguments import Json, Uri, read_text
from omnigraph.cli.failures import FAILED
from omnigraph.cli.output import say, say_json
from omnigraph.cli.scopes import addressed

if TYPE_CHECKING:
    from omnigraph.language.query.linting import LintReport
    from omnigraph.language.schema import Catalog

_SEVERITIES = {"error": "ERROR", "warning": "WARN ", "info": "INFO "}


def lint(
    query: Annotated[str, typer.Option("--query", metavar="FILE", help="The file with queries.")],
    uri: Uri = None,
    schema: Annotated[
        str | None, typer.Option("--schema", metavar="FILE", help="Check against this schema file; no graph is needed.")
    ] = None,
    json: Json = False,
) -> None:
    """Check queries against a schema file or a graph's schema. Exit 1 when something is wrong.

    $ omnigraph lint --schema schema.pg --query queries.gq
    $ omnigraph lint social.omni --query queries.gq --json
    """
    text = read_text(query, "query file")
    source, catalog = _schema(uri, schema)
    from omnigraph.language.query.linting import lint as check

    report = check(text, catalog, query_path=query, schema_source=source)
    say_json(report.to_json()) if json else _say(report)
    if not report.ok:
        raise typer.Exit(FAILED)


def _schema(uri: str | None, schema: str | None) -> "tuple[dict[str, str], Catalog]":
    if schema is not None:
        from omnigraph.language.schema import compile_schema

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
