"""The schemas of a graph: the one in its files, checked at every open, and the one that each snapshot refers to.

A commit that changes the schema names the old and the new one by their hashes. So a snapshot determines the schema of
its rows: reading an old snapshot, or a branch that did not take part in the change, uses the old schema.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

from omnigraph.catalog.arrow import table_arrow_schemas
from omnigraph.errors import InvalidInput, ObjectNotFound, SchemaChanged, SchemaContractDrift
from omnigraph.language.schema.compile import compile_schema
from omnigraph.language.stored.files import Accepted, accepted_catalog, check_schema_files, schema_files
from omnigraph.language.stored.ir import catalog_to_ir, ir_hash
from omnigraph.manifest.create import NewGraph
from omnigraph.manifest.layout import MAIN, SCHEMA_IR, SCHEMA_SOURCE, SCHEMA_STATE
from omnigraph.manifest.schema_files import read_schema_text
from omnigraph.transaction.intents.queue import list_sidecars
from omnigraph.transaction.intents.sidecar_json import report_unreadable

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.storage.objects.store import ObjectStore

# If the schema changes more often than this during one operation, the caller gets the error.
ATTEMPTS = 5

T = TypeVar("T")


def new_graph(source: str, source_name: str) -> NewGraph:
    """The files and tables of a new graph with this schema. Raises `SchemaError`."""
    files = schema_files(source, source_name)
    named = {SCHEMA_SOURCE: files.source, SCHEMA_IR: files.ir_json, SCHEMA_STATE: files.state_json}
    return NewGraph(named, table_arrow_schemas(compile_schema(source, source_name)))


class Schemas:
    """The schemas of an open graph, each read once and cached. Thread-safe."""

    def __init__(self, manifest: GraphManifest) -> None:
        self._manifest = manifest
        self._cached: dict[str | None, Accepted] = {}
        self._lock = threading.RLock()
        self.current()

    def current(self) -> Accepted:
        """The schema of main in the cached branch manifest; the store is not checked for a newer one."""
        return self.of(self._manifest.branch(MAIN).schema)

    def of(self, named: str | None) -> Accepted:
        """The schema that a snapshot names; None is the one before the first commit that changed it."""
        with self._lock:
            if named not in self._cached:
                self._cached[named] = self._read(named)
            return self._cached[named]

    def attempt(self, branch: str, act: Callable[[str | None], T], *, again: bool = True) -> T:
        """Run `act` under the schema of a branch; retry when it fails and the schema turns out to have changed.

        `act` gets the hash of the schema, and must have changed nothing when it fails with invalid input.
        """
        for _ in range(ATTEMPTS):
            named = self._manifest.branch(branch).schema
            try:
                return act(named)
            except (SchemaChanged, InvalidInput):
                if not again or self._manifest.fresh_branch(branch).schema == named:
                    raise
        raise SchemaChanged(branch)

    def _read(self, named: str | None) -> Accepted:
        main = self._manifest.branch(MAIN)
        if named == main.schema:
            return self._newest(named)
        if named is not None:
            return self._from_history(named)
        first = main.schema_commits[0].schema
        assert first is not None
        return self._from_history(first.before)

    def _newest(self, named: str | None) -> Accepted:
        """The schema of the live files, unless they are being replaced right now: then the one the commit names."""
        try:
            found = self._live()
        except SchemaContractDrift:
            self._manifest.fresh_branch(MAIN)
            found = None
        if found is not None and named in (None, found.hash):
            return found
        newest = self._manifest.branch(MAIN).schema
        if newest is not None and self._is_on_its_way():
            return self._from_history(newest)
        # A release that names no schema in its commits has changed it since, or the files really disagree.
        return self._live()

    def _is_on_its_way(self) -> bool:
        """Whether the newest schema change is published and has not finished moving its files into place."""
        change = self._manifest.branch(MAIN).schema_commits[-1].id
        everyone = list_sidecars(self._manifest.stores.objects, unreadable=report_unreadable)
        commits = (each.sidecar.commit for each in everyone)
        return any(each is not None and each.commit_id == change for each in commits)

    def _live(self) -> Accepted:
        source, catalog = read_schema(self._manifest)
        return Accepted(source, catalog, ir_hash(catalog_to_ir(catalog)))

    def _from_history(self, named: str) -> Accepted:
        uri = self._manifest.stores.uri
        try:
            source = read_schema_text(self._manifest.stores.objects, named)
        except ObjectNotFound as error:
            raise SchemaContractDrift(uri, f"{uri}: the text of the schema {named} is gone: {error}") from error
        return Accepted(source.decode(), accepted_catalog(source, named, uri=uri), named)


def read_schema(manifest: GraphManifest) -> tuple[str, Catalog]:
    """The source of an existing graph's schema, and its catalog. Raises `SchemaContractDrift` if files disagree."""
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
    """Early releases stored the source alone; while only main exists, the other two files are derived from it."""
    files = schema_files(source.decode(), SCHEMA_SOURCE)
    if not manifest.read_only:
        manifest.stores.objects.write(SCHEMA_IR, files.ir_json)
        manifest.stores.objects.write(SCHEMA_STATE, files.state_json)
    return files.ir_json, files.state_json


def _read(objects: ObjectStore, name: str) -> bytes | None:
    try:
        return objects.read(name)
    except ObjectNotFound:
        return None
