"""The graph a user holds. Thin: every method hands over to the part of the house that does the work."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from omnigraph.errors import InvalidInput
from omnigraph.language.query import bind_params, check_query, parse_queries
from omnigraph.language.query.checked import CheckedMutation
from omnigraph.manifest.graph_manifest import GraphManifest, create_manifest
from omnigraph.manifest.layout import MAIN
from omnigraph.manifest.publisher import ANY_HEAD
from omnigraph.read.export import export_records
from omnigraph.read.export_tables import export_tables
from omnigraph.read.options import DEFAULT_OPTIONS, ReadOptions
from omnigraph.read.query import run_query
from omnigraph.schema_contract import blueprint, read_schema
from omnigraph.store.location import parse_location
from omnigraph.upkeep.indices import IndexBuild, IndexReport
from omnigraph.versions.diff import GraphDiff
from omnigraph.versions.merge.merge import Merge, Merged, MergeOptions
from omnigraph.world import REAL, World
from omnigraph.write.commit import Operation, commit
from omnigraph.write.load.load import read_load
from omnigraph.write.load.operation import Load
from omnigraph.write.mutation.constants import Request
from omnigraph.write.mutation.mutate import Mutation
from omnigraph.write.mutation.statements import Affected
from omnigraph.write.recovery.audit import recoveries
from omnigraph.write.recovery.sweep import sweep

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from omnigraph.language.query.checked import CheckedQuery
    from omnigraph.language.schema.catalog import Catalog
    from omnigraph.manifest.branches import Branch
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.read.result import Result
    from omnigraph.versions.merge.conflicts import Resolver
    from omnigraph.write.load.load import LoadSummary, Mode
    from omnigraph.write.recovery.audit import Recovery


def init(
    uri: str | os.PathLike[str],
    *,
    schema: str | Path,
    actor: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    world: World = REAL,
) -> Graph:
    """Make a new graph. `schema` is the text of a `.pg` schema, or a `Path` to one. Refuses an existing graph."""
    source, name = (schema.read_text("utf-8"), str(schema)) if isinstance(schema, Path) else (schema, "<schema>")
    location = parse_location(uri, world, storage_options)
    return Graph(create_manifest(location, blueprint(source, name), world), actor=actor)


def open_graph(
    uri: str | os.PathLike[str],
    *,
    read_only: bool = False,
    actor: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    world: World = REAL,
) -> Graph:
    """Open a graph. For writing, operations that died are finished or undone first; read-only never writes."""
    manifest = GraphManifest(parse_location(uri, world, storage_options), read_only=read_only, world=world)
    if not read_only:
        sweep(manifest)
    return Graph(manifest, actor=actor)


@dataclass(frozen=True)
class Mutated:
    """What a mutation did. `commit` is None when nothing matched; `repeated` when its key had been used before."""

    commit: GraphCommit | None
    affected_nodes: int
    affected_edges: int
    repeated: bool = False


@dataclass(frozen=True)
class Loaded:
    """What a load did. `repeated` when its key had been used before: then nothing was written."""

    commit: GraphCommit
    summary: LoadSummary
    repeated: bool = False


class Graph:
    """An open graph. Safe to share between threads."""

    def __init__(self, manifest: GraphManifest, *, actor: str | None = None) -> None:
        self._manifest = manifest
        self._source, self._catalog = read_schema(manifest)
        self.actor = actor
        self.branches = Branches(manifest)

    @property
    def uri(self) -> str:
        """Where the graph is."""
        return self._manifest.stores.uri

    @property
    def read_only(self) -> bool:
        """Whether it was opened for reading alone."""
        return self._manifest.read_only

    @property
    def schema(self) -> str:
        """The schema's source, as it was written."""
        return self._source

    @property
    def catalog(self) -> Catalog:
        """The compiled schema."""
        return self._catalog

    def query(
        self,
        source: str,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = MAIN,
        snapshot: Snapshot | str | None = None,
        name: str | None = None,
        options: ReadOptions = DEFAULT_OPTIONS,
    ) -> Result:
        """Run a query over one state of the graph: a branch as it is now, a snapshot, or a commit by its id."""
        checked = self._checked(source, name)
        if isinstance(checked, CheckedMutation):
            raise InvalidInput(f"query {checked.name!r} changes the graph: run it with mutate().")
        return run_query(
            self._snapshot(snapshot, branch),
            self._manifest.stores.tables,
            self._catalog,
            checked,
            bind_params(checked, params),
            options=options,
            world=self._manifest.world,
        )

    def mutate(
        self,
        source: str,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = MAIN,
        name: str | None = None,
        actor: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> Mutated:
        """Carry out a mutation as one commit.

        `if_commit`: only if the branch's newest commit is this one. `idempotency_key`: a second call with the same key
        on the same branch returns the first one's commit and changes nothing.
        """
        checked = self._checked(source, name)
        if not isinstance(checked, CheckedMutation):
            raise InvalidInput(f"query {checked.name!r} reads: run it with query().")
        world = self._manifest.world
        now = dt.datetime.fromtimestamp(world.now_us() // 1_000 / 1_000, dt.UTC)
        request = Request(bind_params(checked, params), now)
        mutation = Mutation(self._catalog, checked, request, world, Affected())
        operation = Operation(
            "Mutation",
            mutation.prepare,
            branch=branch,
            actor=actor or self.actor,
            repeatable=mutation.is_repeatable,
            expected_head=if_commit if if_commit is not None else ANY_HEAD,
            idempotency_key=idempotency_key,
        )
        receipt = commit(self._manifest, operation)
        if receipt is None or receipt.repeated:
            return Mutated(receipt.commit if receipt else None, 0, 0, repeated=receipt is not None)
        return Mutated(receipt.commit, mutation.affected.nodes, mutation.affected.edges)

    def load(
        self,
        source: object,
        *,
        mode: Mode = "merge",
        branch: str = MAIN,
        from_: str | None = None,
        strict: bool = True,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> Loaded:
        """Load nodes and edges as one commit: all of them, or none.

        `source`: a file, glob or directory, graph records (text or dictionaries), or a mapping of type names to Arrow,
        pandas or polars tables, files or rows; edges have `from` and `to`. `mode`: `append` (every id must be new),
        `merge` (rows replace those of the same id) or `overwrite` (of the types in the source). `from_`: make the
        branch from this one if it is not there.
        """
        world = self._manifest.world
        load = Load(self._catalog, read_load(self._catalog, source, world, strict=strict), mode, world)
        if from_ is not None and branch not in {each.name for each in self.branches.list()}:
            self.branches.create(branch, from_=from_)
        operation = Operation(
            "Load",
            load.prepare,
            branch=branch,
            actor=actor or self.actor,
            repeatable=load.is_repeatable,
            idempotency_key=idempotency_key,
        )
        receipt = commit(self._manifest, operation)
        assert receipt is not None, "a load always makes a commit"
        return Loaded(receipt.commit, load.loaded.summary, repeated=receipt.repeated)

    def merge(
        self,
        source: str,
        *,
        into: str = MAIN,
        resolve: Resolver = None,
        by_property: bool = True,
        actor: str | None = None,
        dry_run: bool = False,
        delete_branch: bool = False,
    ) -> Merged:
        """Merge a branch into another as one commit with two parents.

        Two sides that changed different properties of one entity merge, unless `by_property` is off. What they
        disagree on is settled by `resolve`: `"ours"` (the target), `"theirs"` (the source), a mapping of
        `table_key/id` to one of them, or a function of the conflict; whatever is left is `MergeConflicts`, and nothing
        is written. `dry_run` only tells what would happen.
        """
        options = MergeOptions(by_property=by_property, resolver=resolve, actor=actor or self.actor)
        merge = Merge(self._manifest, self._catalog, source, into, options)
        if dry_run:
            return merge.preview()
        done = merge.run()
        if delete_branch:
            self.branches.delete(source)
        return done

    def diff(self, before: str, after: str) -> GraphDiff:
        """What changed between two states, each given as a branch or a commit id."""
        return GraphDiff(self._state(before), self._state(after), self._manifest.stores.tables)

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        branch: str = MAIN,
        commit_id: str | None = None,
        format: Literal["jsonl", "parquet", "csv"] = "jsonl",  # noqa: A002 - the word everybody uses
        types: Sequence[str] | None = None,
    ) -> list[Path]:
        """Write one state of the graph to files: graph records in one file, or a Parquet or CSV file per type.

        What is exported and loaded into an empty graph of the same schema is the same graph.
        """
        snapshot = self.snapshot(branch=branch, commit_id=commit_id)
        tables, place = self._manifest.stores.tables, Path(path)
        if format != "jsonl":
            written = export_tables(snapshot, tables, self._catalog, place, form=format, types=types)
            return list(written.values())
        with place.open("wb") as file:
            file.writelines(export_records(snapshot, tables, self._catalog, types=types))
        return [place]

    def ensure_indices(self, *, branch: str = MAIN) -> IndexReport:
        """Build the indexes that the schema declares and that are missing, as one commit."""
        return IndexBuild(self._manifest, self._catalog, branch=branch, actor=self.actor).run()

    def snapshot(self, *, branch: str = MAIN, commit_id: str | None = None) -> Snapshot:
        """Which version of each table makes up the graph: now, or as of a commit."""
        return self._manifest.snapshot(branch) if commit_id is None else self._manifest.snapshot_of(commit_id)

    def commits(self, *, branch: str = MAIN) -> list[GraphCommit]:
        """The history of a branch, the newest commit first."""
        return self._manifest.lineage(branch).newest_first()

    def commit(self, commit_id: str) -> GraphCommit:
        """One commit."""
        return self._manifest.commit(commit_id)

    def recoveries(self) -> list[Recovery]:
        """The operations that died and were finished or undone, the oldest first."""
        return recoveries(self._manifest.stores)

    def refresh(self) -> None:
        """Finish or undo operations that died since the graph was opened."""
        if not self.read_only:
            sweep(self._manifest)

    def _snapshot(self, given: Snapshot | str | None, branch: str) -> Snapshot:
        if given is None:
            return self._manifest.snapshot(branch)
        return self._manifest.snapshot_of(given) if isinstance(given, str) else given

    def _state(self, name: str) -> Snapshot:
        branches = {each.name for each in self.branches.list()}
        return self.snapshot(branch=name) if name in branches else self.snapshot(commit_id=name)

    def _checked(self, source: str, name: str | None) -> CheckedQuery | CheckedMutation:
        return check_query(parse_queries(source).select(name), self._catalog)

    def __repr__(self) -> str:
        mode = ", read-only" if self.read_only else ""
        return f"<Graph {self.uri}{mode}>"


class Branches:
    """The branches of a graph."""

    def __init__(self, manifest: GraphManifest) -> None:
        self._manifest = manifest

    def create(self, name: str, *, from_: str = MAIN, commit_id: str | None = None) -> None:
        """Make a branch from the newest state of another, or from a commit."""
        self._manifest.create_branch(name, source=from_, commit_id=commit_id)

    def list(self) -> list[Branch]:
        """All branches, main first."""
        return self._manifest.branches()

    def delete(self, name: str) -> None:
        """Remove a branch and what only it has. Refused for main, and while anything stands on it."""
        self._manifest.delete_branch(name)
