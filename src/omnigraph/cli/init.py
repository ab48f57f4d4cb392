"""`omnigraph init`: make a graph from a schema."""

from typing import Annotated

import typer

from omnigraph.cli.arguments import Json, SchemaFile, read_text
from omnigraph.cli.output import say, say_json
from omnigraph.errors import InvalidInput


def init(
    uri: Annotated[str, typer.Argument(metavar="URI", help="Where the graph will be: a path, s3://, gs:// or az://.")],
    schema: SchemaFile,
    force: Annotated[
        bool, typer.Option("--force", help="Replace schema files that were left behind without a graph.")
    ] = False,
    json: Json = False,
) -> None:
    """Make a new graph from a schema. An existing graph is never touched.

    $ omnigraph init --schema schema.pg social.omni
    $ omnigraph init --schema schema.pg s3://bucket/social.omni
    """
    source = read_text(schema, "schema file")
    _refuse_cluster_member(uri)
    from omnigraph.opening import init as make

    _check(source, schema)
    if force:
        _clear_orphans(uri)
    make(uri, schema=source)
    say_json({"uri": uri}) if json else say(f"initialized {uri}")


def _check(source: str, name: str) -> None:
    """Tell about the schema before the store is touched, and by its file's name."""
    from omnigraph.language.schema import compile_schema

    compile_schema(source, name)


def _refuse_cluster_member(uri: str) -> None:
    from omnigraph.cli.clusters import is_cluster_member

    if is_cluster_member(uri):
        raise InvalidInput(f"{uri} belongs to a cluster, which makes its graphs itself: declare the graph there.")


def _clear_orphans(uri: str) -> None:
    """Remove schema files that no manifest goes with."""
    from omnigraph.manifest.layout import MANIFEST, SCHEMA_FILES
    from omnigraph.store.location import parse_location
    from omnigraph.store.objects import open_control_store

    store = open_control_store(parse_location(uri))
    if store.exists(MANIFEST):
        return
    for name in SCHEMA_FILES:
        store.delete(name)
