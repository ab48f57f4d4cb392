"""Arguments that several commands share, the parsing of their values, and the report of conflicts that remain."""

import json as json_text
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from omnigraph.cli.frame.options import SOURCE_NAME, current
from omnigraph.cli.frame.output import say
from omnigraph.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from omnigraph.errors.commits import Conflict
    from omnigraph.history.merge.conflicts import Choice, Resolver


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


Resolve = Annotated[
    Literal["ours", "theirs"] | None, typer.Option("--resolve", help="Resolve every conflict in favour of one side.")
]
ResolveFile = Annotated[
    str | None,
    typer.Option(
        "--resolve-file", metavar="FILE", help='Resolve conflicts one by one: JSON {"node:Person/Ada": "theirs", …}.'
    ),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Two changes of one entity conflict, even of different properties.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the result without writing it.")]


def resolver_of(resolve: "Choice | None", file: str | None) -> "Resolver":
    """What the options say about conflicts."""
    refuse_together(resolve=resolve, resolve_file=file)
    if file is None:
        return resolve
    try:
        loaded = json_text.loads(read_text(file, "resolution file"))
    except ValueError as error:
        raise InvalidInput(f"the resolution file {file} is not JSON: {error}.") from error
    if not isinstance(loaded, dict) or not all(value in ("ours", "theirs") for value in loaded.values()):
        raise InvalidInput(
            f'the resolution file {file} must be a JSON object that gives each conflict, as "node:Person/Ada" or '
            '"*" for all others, "ours" or "theirs".'
        )
    return loaded


def say_conflicts(conflicts: "Iterable[Conflict]", more: int = 0) -> None:
    """A line for each, and one for those that are not listed."""
    for each in conflicts:
        say(f"  {'  ' if each.follows else ''}{each.kind} {each.table_key} {each.row_id}: {each.message}")
        if each.edges:
            others = f" and {each.more_edges} more" if each.more_edges else ""
            say(f"    with it: {', '.join(each.edges)}{others}")
    if more:
        say(f"  and {more} more")


def say_left_out(left_out: "Mapping[str, int]", *, dry_run: bool) -> None:
    """A line for each property that was dropped and whose values are left out."""
    for name, rows in left_out.items():
        say(f"{'would leave' if dry_run else 'left'} out {name} of {rows} {'row' if rows == 1 else 'rows'}")


def conflicts_json(conflicts: "Iterable[Conflict]") -> list[dict[str, Any]]:
    """Conflicts for programs."""
    return [conflict_json(each) for each in conflicts]


def conflict_json(conflict: "Conflict") -> dict[str, Any]:
    """One conflict, with its edges if it is about a node with edges, and its node if it follows one."""
    document = {
        "kind": conflict.kind,
        "type_key": conflict.table_key,
        "id": conflict.row_id,
        "message": conflict.message,
    }
    edges = {"edges": list(conflict.edges), "more_edges": conflict.more_edges} if conflict.edges else {}
    return {**document, **edges, **({"follows": conflict.follows} if conflict.follows else {})}
