"""The schema files of a graph: read and checked against each other at every open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import ObjectNotFound, SchemaContractDrift
from omnigraph.language.schema import check_schema_files, schema_files
from omnigraph.language.schema.arrow import table_arrow_schemas
from omnigraph.language.schema.compile import compile_schema
from omnigraph.manifest.genesis import Blueprint
from omnigraph.manifest.layout import SCHEMA_IR, SCHEMA_SOURCE, SCHEMA_STATE

if TYPE_CHECKING:
    from omnigraph.language.schema.catalog import Catalog
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.store.objects import ControlStore


def blueprint(source: str, source_name: str) -> Blueprint:
    """The files and tables of a new graph with this schema. Raises `SchemaError`."""
    files = schema_files(source, source_name)
    named = {SCHEMA_SOURCE: files.source, SCHEMA_IR: files.ir_json, SCHEMA_STATE: files.state_json}
    return Blueprint(named, table_arrow_schemas(compile_schema(source, source_name)))


def read_schema(manifest: GraphManifest) -> tuple[str, Catalog]:
    """The source of an existing graph's schema, and its catalog. Files that disagree are `SchemaContractDrift`."""
    objects, uri = manifest.stores.objects, manifest.stores.uri
    source = _read(objects, SCHEMA_SOURCE)
    if source is None:
        raise SchemaContractDrift(uri, f"{uri} has no {SCHEMA_SOURCE}: restore it from a copy.")
    ir, state = _read(objects, SCHEMA_IR), _read(objects, SCHEMA_STATE)
    if ir is None and state is None and len(manifest.branches()) == 1:
        ir, state = _derive(manifest, source)
    catalog = check_schema_files(source, ir, state, uri=uri)
    return source.decode(), catalog


def _derive(manifest: GraphManifest, source: bytes) -> tuple[bytes, bytes]:
    """Early releases kept the source alone; while only main exists, the other two files follow from it."""
    files = schema_files(source.decode(), SCHEMA_SOURCE)
    if not manifest.read_only:
        manifest.stores.objects.write(SCHEMA_IR, files.ir_json)
        manifest.stores.objects.write(SCHEMA_STATE, files.state_json)
    return files.ir_json, files.state_json


def _read(objects: ControlStore, name: str) -> bytes | None:
    try:
        return objects.read(name)
    except ObjectNotFound:
        return None
