"""Checks and resolves the options of Spark's `format("omnigraph")`, and refers to the graph that they name."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from omnigraph.errors import InvalidInput
from omnigraph.manifest.graph_manifest import GraphManifest, open_stores
from omnigraph.manifest.layout import MAIN
from omnigraph.manifest.states import named_state, resolve
from omnigraph.storage.objects.location import parse_location
from omnigraph.transaction.recovery.outcome import sweep
from omnigraph.transaction.schemas import Schemas
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.pipeline.datasource.change_stream import ChangeStreamReader
    from omnigraph.pipeline.datasource.query_reader import QuerySource
    from omnigraph.pipeline.datasource.writer import WriteTarget
    from omnigraph.storage.objects.location import Location
    from omnigraph.storage.objects.store import ObjectStore
    from omnigraph.tasks.table_scan import TableScan
    from omnigraph.values.batches import Mode


@dataclass(frozen=True)
class GraphReference:
    """The URI and storage options of a graph. Can be pickled; what it opens stays in the process."""

    uri: str
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def location(self) -> Location:
        """The parsed location of the graph."""
        return parse_location(self.uri, REAL, dict(self.settings))

    def manifest(self) -> GraphManifest:
        """The graph opened for writing, cached per process. Recovery of dead operations runs first."""
        return _opened(self)

    def catalog(self, branch: str = MAIN) -> Catalog:
        """The current catalog of a branch."""
        manifest = self.manifest()
        return Schemas(manifest).of(manifest.fresh_branch(branch).schema).catalog

    def objects(self) -> ObjectStore:
        """The object store of the graph's root."""
        return open_stores(self.location, REAL).objects

    def reader(self) -> tuple[GraphManifest, Schemas]:
        """The graph opened read-only, with its schemas."""
        manifest = GraphManifest(self.location, world=REAL, read_only=True)
        return manifest, Schemas(manifest)


@lru_cache(maxsize=8)
def _opened(reference: GraphReference) -> GraphManifest:
    manifest = GraphManifest(reference.location, world=REAL)
    sweep(manifest)
    return manifest


NAME = "omnigraph"
_STORAGE = "storage."


@dataclass(frozen=True)
class SourceOptions:
    """The options of one read or write, by lower-case name."""

    graph: str
    options: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SourceOptions:
        """Read Spark's options, whose names are case-insensitive."""
        named = {key.lower(): value for key, value in options.items()}
        graph = named.get("path") or named.get("graph")
        if not graph:
            raise InvalidInput(f'format({NAME!r}) needs the path: .load("./graph.omni")')
        return cls(graph, named)

    @property
    def branch(self) -> str:
        """The branch; main by default."""
        return self.options.get("branch") or "main"

    @property
    def type_name(self) -> str:
        """The type, a required option."""
        if not self.options.get("type"):
            raise InvalidInput(f'format({NAME!r}) needs the type: .option("type", "Person")')
        return self.options["type"]

    @property
    def wants_changes(self) -> bool:
        """Whether the source is a change stream."""
        return self.options.get("changes", "").lower() == "true"

    @property
    def settings(self) -> dict[str, str]:
        """The storage options."""
        return {key[len(_STORAGE) :]: value for key, value in self.options.items() if key.startswith(_STORAGE)}

    @property
    def reference(self) -> GraphReference:
        """A reference to the graph that any process can open."""
        return GraphReference(self.graph, tuple(sorted(self.settings.items())))

    def scan(self) -> TableScan:
        """A scan of the type's table, pinned to a version."""
        from omnigraph.tasks.table_scan import resolve_scan

        columns = self.options.get("columns")
        return resolve_scan(
            self.graph,
            self.type_name,
            world=REAL,
            branch=self.branch,
            snapshot=self.options.get("snapshot"),
            timestamp=self.options.get("timestamp"),
            columns=None if columns is None else [each.strip() for each in columns.split(",")],
            storage_options=self.settings,
        )

    def query(self) -> QuerySource | None:
        """The query, pinned to a commit; None if the option is not set."""
        text = self.options.get("query")
        if not text:
            return None
        from omnigraph.pipeline.datasource.query_reader import QuerySource

        if self.options.get("type"):
            raise InvalidInput("give either a type or a query, not both.")
        named = named_state(self.options.get("snapshot"), self.options.get("timestamp"))
        state = resolve(self.reference.reader()[0], named, branch=self.branch)
        assert state.commit_id is not None, "every branch has a commit: the first one of the graph"
        return QuerySource(
            self.reference, text, self.options.get("params", ""), self.options.get("name"), state.commit_id
        )

    def change_schema(self) -> pa.Schema:
        """The Arrow schema of the change stream."""
        from omnigraph.pipeline.datasource.change_stream import change_schema

        manifest, schemas = self.reference.reader()
        return change_schema(schemas.of(manifest.branch(self.branch).schema).catalog, self.type_name)

    def changes(self) -> ChangeStreamReader:
        """The reader of the change stream."""
        from omnigraph.history.change_feed import BEGINNING
        from omnigraph.pipeline.datasource.change_stream import ChangeStreamReader

        most = self._number("maxCommitsPerBatch")
        since = self.options.get("since", BEGINNING)
        return ChangeStreamReader(self.reference, self.type_name, self.branch, self.change_schema(), since, most)

    def _number(self, name: str) -> int:
        text = self.options.get(name.lower(), "0")
        if not text.isdecimal():
            raise InvalidInput(f"the option {name} is a number, not {text!r}.")
        return int(text)

    def target(self, *, overwrite: bool) -> WriteTarget:
        """The target of a write. With the option `key`, a repeated write does nothing; otherwise the key is new."""
        return self._target("overwrite" if overwrite else self._mode(), self.options.get("key") or REAL.ulid())

    def stream_target(self, *, overwrite: bool) -> WriteTarget:
        """The target of a stream. Its key is the id of the streaming query, which the checkpoint stores."""
        if overwrite:
            raise InvalidInput("a stream is added: use the output mode append.")
        return self._target(self._mode(), self.options.get("key") or self._query_id())

    def _target(self, mode: str, key: str) -> WriteTarget:
        from omnigraph.pipeline.datasource.writer import WriteTarget

        actor = self.options.get("actor")
        return WriteTarget(self.reference, self.type_name, cast("Mode", mode), self.branch, actor, key)

    def _mode(self) -> str:
        mode = self.options.get("mode", "append")
        if mode not in ("append", "merge"):
            raise InvalidInput(
                f'the option mode is append or merge, not {mode!r}; to replace, write .mode("overwrite").'
            )
        return mode

    def _query_id(self) -> str:
        """Read the id of the streaming query from its checkpoint; Spark passes only the checkpoint's location."""
        import orjson

        from omnigraph.load.files import list_files, read_range, resolved_options

        checkpoint = self.options.get("checkpointlocation")
        if not checkpoint:
            raise InvalidInput("a stream needs a checkpoint: .option('checkpointLocation', ...)")
        (found,) = list_files(f"{checkpoint.rstrip('/')}/metadata", world=REAL)
        return str(orjson.loads(read_range(found, 0, found.size, resolved_options([found], world=REAL)))["id"])
