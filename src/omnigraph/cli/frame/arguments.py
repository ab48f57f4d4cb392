"""Arguments that several commands share, and the parsing of their values."""

import json as json_text
from pathlib import Path
from typing import Annotated, Any

import typer

from omnigraph.cli.frame.options import SOURCE_NAME, current
from omnigraph.errors import InvalidInput

Uri = Annotated[str | None, typer.Argument(metavar="URI", help="The graph: a path, file://, s3://, gs:// or az://.")]
UriOption = Annotated[str | None, typer.Option("--uri", metavar="URI", help="The graph.")]
Branch = Annotated[str | None, typer.Option("--branch", metavar="BRANCH", help="The branch; default: main.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
QueryFile = Annotated[str | None, typer.Option("--query", metavar="FILE", help="A file with queries.")]
QueryText = Annotated[str | None, typer.Option("--query-string", "-e", metavar="GQ", help="The query itself.")]
Params = Annotated[str | None, typer.Option("--params", metavar="JSON", help="Parameters, as a JSON object.")]
ParamsFile = Annotated[str | None, typer.Option("--params-file", metavar="FILE", help="A file with parameters.")]
SchemaFile = Annotated[str, typer.Option("--schema", metavar="FILE", help="A schema file, .pg.")]


def refuse_together(**options: object) -> None:
    """A usage error if more than one of these options was given; `-` in a name is written `_`."""
    used = [f"--{name.replace('_', '-')}" for name, value in options.items() if value]
    if len(used) > 1:
        current().fail(f"{' and '.join(used)} cannot be used together.")


def read_text(path: str, what: str) -> str:
    """Read a file that the user named; a failure names the file and its purpose."""
    try:
        return Path(path).read_text("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the {what} {path} is not UTF-8: {error.reason} at byte {error.start}.") from error
    except OSError as error:
        raise InvalidInput(f"the {what} {path} cannot be read: {error.strerror}.") from error


def query_source(query: str | None, query_string: str | None, verb: str) -> str:
    """The text of an ad-hoc query. A name alone would mean a stored query, which only servers have."""
    refuse_together(query=query, query_string=query_string)
    if query_string is not None:
        return query_string
    if query is not None:
        current().meta[SOURCE_NAME] = query
        return read_text(query, "query file")
    raise InvalidInput(f"stored queries are run by servers: give `{verb}` a file with --query or the text with -e.")


def parameters(params: str | None, params_file: str | None) -> dict[str, Any]:
    """The parameters of a query."""
    refuse_together(params=params, params_file=params_file)
    text = read_text(params_file, "parameter file") if params_file is not None else params
    if text is None:
        return {}
    try:
        loaded = json_text.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the parameters are not JSON: {error}.") from error
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise InvalidInput("the parameters must be a JSON object of names and values.")
    return loaded
