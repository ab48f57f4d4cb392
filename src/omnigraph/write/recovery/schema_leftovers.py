"""Schema files of a change by another release that died, and of which no sidecar tells.

This program's changes always leave a sidecar. Others leave none when no table moves, and write the new files beside the
live ones before they publish. Which of the two schemas the graph is in, its tables say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import SchemaContractDrift, SchemaError
from omnigraph.language.schema.arrow import table_arrow_schemas
from omnigraph.language.schema.compile import compile_accepted
from omnigraph.language.schema.contract import check_schema_files
from omnigraph.manifest.layout import MAIN, SCHEMA_FILES, SCHEMA_SOURCE, SCHEMA_STATE
from omnigraph.manifest.schema_files import STAGING, discard_staged, live_files, promote, staged_files
from omnigraph.write.tickets import list_sidecars

if TYPE_CHECKING:
    from omnigraph.manifest.graph_manifest import GraphManifest

    # The columns of every table.
    Shape = dict[str, frozenset[str]]


def settle_leftovers(manifest: GraphManifest) -> None:
    """Move files into place that the tables are in already, and remove those that they are not in.

    Where both schemas fit, nothing that they differ in was ever used: the change is taken back.
    """
    objects = manifest.stores.objects
    if not objects.exists(f"{SCHEMA_STATE}{STAGING}") or _is_told_of(manifest):
        return
    staged = staged_files(objects)
    if staged is None:
        return
    if not _is_whole(manifest, staged):
        # A writer that slept has written one of them after its change was taken back.
        discard_staged(objects)
        return
    if objects.exists(f"{SCHEMA_SOURCE}{STAGING}"):
        stored, live = _stored(manifest), _shape(manifest, objects.read(SCHEMA_SOURCE))
        if stored == live:
            discard_staged(objects)
            return
        if stored != _shape(manifest, staged[SCHEMA_SOURCE]):
            raise SchemaContractDrift(
                manifest.stores.uri,
                f"{manifest.stores.uri}: a change of schema did not finish, and the tables are in neither schema. "
                f"Restore the graph from a copy, or put the files that fit in place of *{STAGING} and the live ones.",
            )
    # The source is moved first: without it among the staged files, the move had begun.
    promote(objects, staged, over=live_files(objects))


def _is_told_of(manifest: GraphManifest) -> bool:
    """Whether a sidecar tells of a change: then whoever holds or recovers it deals with the files."""
    return any(each.sidecar.writer_kind == "SchemaApply" for each in list_sidecars(manifest.stores.objects))


def _is_whole(manifest: GraphManifest, files: dict[str, bytes]) -> bool:
    try:
        check_schema_files(*(files[name] for name in SCHEMA_FILES), uri=manifest.stores.uri)
    except SchemaContractDrift:
        return False
    return True


def _stored(manifest: GraphManifest) -> Shape:
    tables = manifest.stores.tables
    return {each.table_key: frozenset(tables.open(each.pin).schema.names) for each in manifest.snapshot(MAIN)}


def _shape(manifest: GraphManifest, source: bytes) -> Shape:
    try:
        schemas = table_arrow_schemas(compile_accepted(source.decode(), SCHEMA_SOURCE))
    except (SchemaError, UnicodeDecodeError) as error:
        raise SchemaContractDrift(manifest.stores.uri, f"{manifest.stores.uri}: {error}") from error
    return {key: frozenset(schema.names) for key, schema in schemas.items()}
