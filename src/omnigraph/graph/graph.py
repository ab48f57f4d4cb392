"""`Graph`, the public API. Its methods are thin: each calls the package that implements it.

A method imports that package when it is called, so that reading a graph does not import loads and merges.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, overload

from omnigraph.arguments import checked_methods, text_of
from omnigraph.deprecation import renamed_keywords
from omnigraph.errors import InvalidInput
from omnigraph.graph.refs import Branches, CommitLog, Tags
from omnigraph.kernels.report import html_rows
from omnigraph.language.gq.compile import QueryCache
from omnigraph.manifest.layout import MAIN
from omnigraph.manifest.states import commit_named, resolve, snapshot_at_version
from omnigraph.query.exec.limits import DEFAULT_OPTIONS, ReadOptions
from omnigraph.tasks.runner import CHOSEN, require_engine
from omnigraph.transaction.schemas import Schemas

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.ddl.apply import Applied, SchemaApply
    from omnigraph.embeddings.embedder import Embeddings
    from omnigraph.graph.backends import Loaded
    from omnigraph.history.change_feed import Baseline, ChangeFeed, ChangePage, CommitChanges
    from omnigraph.history.changes import ChangeOp, EntityKind
    from omnigraph.history.delta import GraphDiff
    from omnigraph.history.entities import Entity, EntityHistory
    from omnigraph.history.merge.conflicts import Resolver
    from omnigraph.history.merge.merge import Merged, Reverted
    from omnigraph.language.evolution import MigrationPlan
    from omnigraph.load.plan import ErrorPolicy
    from omnigraph.maintenance.cleanup import CleanupReport
    from omnigraph.maintenance.indexes import IndexReport
    from omnigraph.maintenance.optimize import OptimizeReport
    from omnigraph.maintenance.repair import RepairReport
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.manifest.states import State
    from omnigraph.mutation.run import Mutated
    from omnigraph.query.blob import Blob
    from omnigraph.query.explain import Explanation
    from omnigraph.query.result.result import Result
    from omnigraph.query.run import QueryRunner, ReadRequest
    from omnigraph.spark.analytics.analytics import Analytics
    from omnigraph.storage.objects.location import Location
    from omnigraph.storage.tables.compaction import CompactionPolicy
    from omnigraph.tasks.runner import Engine
    from omnigraph.transaction.recovery.audit import Recovery
    from omnigraph.values.batches import Mode


@checked_methods
class Graph:
    """An open graph. Safe to share between threads."""

    def __init__(self, manifest: GraphManifest, *, actor: str | None = None) -> None:
        self._manifest = manifest
        self._schemas = Schemas(manifest)
        self._queries = QueryCache()
        self.actor = actor
        # The embedding provider; None is the one that the environment names.
        self.embeddings: Embeddings | None = None
        self.branches = Branches(manifest)
        self.tags = Tags(manifest, lambda: self.actor)
        self._feeds: dict[str, ChangeFeed] = {}

    def __reduce__(self) -> tuple[Callable[..., Graph], tuple[object, ...]]:
        """Pickled as location and options: another process opens the graph again, with an embedder of its own."""
        manifest = self._manifest
        return _opened_again, (
            manifest.stores.tables.location,
            manifest.read_only,
            manifest.minor_compaction,
            self.actor,
        )

    @property
    def uri(self) -> str:
        """The location of the graph."""
        return self._manifest.uri

    @property
    def read_only(self) -> bool:
        """Whether it was opened for reading alone."""
        return self._manifest.read_only

    @property
    def schema(self) -> str:
        """The source text of the schema. A change by another process is visible from the next operation on."""
        return self._schemas.current().source

    @property
    def catalog(self) -> Catalog:
        """The compiled schema of main."""
        return self._schemas.current().catalog

    def catalog_of(self, at: State) -> Catalog:
        """The compiled schema that the rows of a state are in: an old one, or one of a branch, may have another."""
        return self._schemas.of(resolve(self._manifest, at).schema).catalog

    @property
    def analytics(self) -> Analytics:
        """Algorithms over the graph on Spark: PageRank, components, paths, …, and their results as properties."""
        from omnigraph.tasks.runner import require_spark

        require_spark("graph.analytics")
        from omnigraph.spark.analytics.analytics import Analytics

        return Analytics(self._manifest, self._schemas, self.actor)

    @overload
    def query(
        self,
        source: str | Path,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = MAIN,
        at: State | None = None,
        name: str | None = None,
        options: ReadOptions = DEFAULT_OPTIONS,
        engine: Literal["local"] = "local",
    ) -> Result: ...

    @overload
    def query(
        self,
        source: str | Path,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = MAIN,
        at: State | None = None,
        name: str | None = None,
        options: ReadOptions = DEFAULT_OPTIONS,
        engine: Literal["spark"],
        spark: SparkSession | None = None,
    ) -> DataFrame: ...

    @renamed_keywords(snapshot="at", removed_in="0.3")
    def query(
        self,
        source: str | Path,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = MAIN,
        at: State | None = None,
        name: str | None = None,
        options: ReadOptions = DEFAULT_OPTIONS,
        engine: Literal["local", "spark"] = "local",
        spark: SparkSession | None = None,
    ) -> Result | DataFrame:
        """Run a query over one state of the graph: a branch as it is now, or the state that `at` names.

        `source` is the text of a query, or a `Path` to one. `at` is a `Snapshot`, a commit or its id (the beginning of
        it is enough), a tag, a branch, `name~2` for two commits before, or a moment of `branch`: a datetime, or a text
        such as `2026-11-16` or `2026-11-16T12:30Z`, in UTC unless it says otherwise. It means the same wherever a state
        is read.
        With `engine="spark"` the result is a Spark DataFrame over that state: the query runs when the frame does.
        """
        require_engine(engine, CHOSEN)
        request = self._request(source, params, branch, at, name, options)
        if engine == "spark":
            from omnigraph.graph.backends import query_on_spark

            return query_on_spark(self._reading, request, spark)
        return self._reading.run(request)

    @renamed_keywords(snapshot="at", removed_in="0.3")
    def stream(
        self,
        source: str | Path,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = MAIN,
        at: State | None = None,
        name: str | None = None,
        options: ReadOptions = DEFAULT_OPTIONS,
    ) -> pa.RecordBatchReader:
        """Run a query whose result need not fit in memory: a reader that produces Arrow batches on demand.

        Its rows are those of `query`, over one state of the graph however long reading takes. Without `order`, groups
        and `distinct` the first batch comes at once; otherwise many matches are spilled to disk, within `options`.
        """
        return self._reading.stream(self._request(source, params, branch, at, name, options))

    @renamed_keywords(snapshot="at", removed_in="0.3")
    def explain(
        self,
        source: str | Path,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = MAIN,
        at: State | None = None,
        name: str | None = None,
        options: ReadOptions = DEFAULT_OPTIONS,
    ) -> Explanation:
        """How a query would run: its operators in order, estimates, indexes and traversal modes. Reads no rows."""
        return self._reading.explain(self._request(source, params, branch, at, name, options))

    @renamed_keywords(snapshot="at", removed_in="0.3")
    def analyze(
        self,
        source: str | Path,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = MAIN,
        at: State | None = None,
        name: str | None = None,
        options: ReadOptions = DEFAULT_OPTIONS,
    ) -> tuple[Result, Explanation]:
        """Run a query, and report rows and time of each operator, and the access paths it used."""
        return self._reading.analyze(self._request(source, params, branch, at, name, options))

    def mutate(
        self,
        source: str | Path,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = MAIN,
        name: str | None = None,
        actor: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> Mutated:
        """Run a mutation as one commit.

        `if_commit`: only if the branch's newest commit is this one. `idempotency_key`: a second call with the same key
        on the same branch returns the first one's commit and changes nothing.
        """
        from omnigraph.mutation.run import MutationRequest, run_mutation

        request = MutationRequest(
            text_of(source), name, params, branch, actor or self.actor, if_commit, idempotency_key
        )
        return run_mutation(self._manifest, self._schemas, self._queries, request)

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
        engine: Engine = "auto",
        spark: SparkSession | None = None,
        master: str | None = None,
        on_error: ErrorPolicy | Literal["fail"] = "fail",
        embed: bool = False,
    ) -> Loaded:
        """Load nodes and edges as one commit: all of them, or none.

        `source`: a file, glob or directory, a list of these, graph records (text or dictionaries), or a mapping of type
        names to Arrow, pandas, polars or Spark tables, files or rows; edges have `from` and `to`. `mode`: `append`
        (every id must be new), `merge` (rows replace those of the same id) or `overwrite` (of the types in the source).
        `from_`: create the branch from this one if it does not exist. `engine`: `auto` takes Spark for its own frames
        and, where it is installed, for more than 64 MiB of files; `spark` and `master` say which one. In this process,
        more than 256 MiB are loaded in bounded memory. `on_error`: `"fail"`, or `og.quarantine(…)`, which every engine
        understands. `embed`: make the vectors that are missing from the texts that `@embed` names.
        """
        from omnigraph.graph.backends import Loading
        from omnigraph.load.plan import LoadOptions

        options = LoadOptions(
            mode=mode,
            branch=branch,
            from_=from_,
            strict=strict,
            actor=actor or self.actor,
            idempotency_key=idempotency_key,
            engine=engine,
            spark=spark,
            master=master,
            on_error=on_error,
            embeddings=self._embeddings if embed else None,
        )
        return Loading(self._manifest, self._schemas, self.branches).run(source, options)

    def merge(
        self,
        source: str,
        *,
        into: str = MAIN,
        resolve: Resolver = None,
        by_property: bool = True,
        actor: str | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
        delete_branch: bool = False,
        engine: Literal["auto", "local", "spark"] = "auto",
        spark: SparkSession | None = None,
    ) -> Merged:
        """Merge a branch into another as one commit with two parents.

        Two sides that changed different properties of one entity merge, unless `by_property` is off. What they
        disagree on is resolved by `resolve`: `"ours"` (the target), `"theirs"` (the source), a mapping of
        `table_key/id` to one of them, or a function of the conflict; remaining conflicts raise `MergeConflicts`, and
        nothing is written. `dry_run` only reports what would happen. `delete_branch`: delete the source afterwards; if
        another branch or a tag depends on it, it stays, and the report says why. A second merge with the same
        `idempotency_key` returns the first one's commit. States of different schemas are merged in the later schema,
        which the target has afterwards.

        Memory is bounded: more than 64 MiB of changed rows are merged partition by partition, spilled to disk, or by
        Spark tasks. `engine`: `spark` runs every merge there, `auto` large ones if a session (`spark`) exists.
        """
        from omnigraph.graph.backends import merge_backend
        from omnigraph.history.merge.conflicts import require_resolver
        from omnigraph.history.merge.merge import Merge, MergeOptions

        require_resolver(resolve)

        def attempt(_: str | None) -> Merged:
            merge = Merge(self._manifest, self._schemas, source, into, options)
            return merge.preview() if dry_run else merge.run()

        with merge_backend(engine, spark, self._manifest.world, dry_run=dry_run) as large:
            options = MergeOptions(by_property, resolve, actor or self.actor, idempotency_key, large)
            done = self._schemas.attempt(into, attempt)
        if dry_run:
            return done
        return self.branches.delete_merged(done) if delete_branch else done

    def diff(self, before: State, after: State) -> GraphDiff:
        """What changed between two states."""
        from omnigraph.history.delta import GraphDiff

        states = resolve(self._manifest, before), resolve(self._manifest, after)
        return GraphDiff(*states, self._manifest.stores.tables)

    def changes(
        self,
        *,
        branch: str = MAIN,
        since: str | None = None,
        limit: int = 1_000,
        types: Sequence[str] | None = None,
        kinds: Sequence[EntityKind] | None = None,
        ops: Sequence[ChangeOp] | None = None,
    ) -> ChangePage:
        """The next changes of a branch, commit by commit along first parents: what each did to which entity.

        `since`: the `cursor` of an earlier page, a commit id, `"beginning"`, or None for now. A page has at most
        `limit` changes and says with `caught_up` whether there were more. `types`, `kinds` (node, edge) and `ops`
        (insert, update, delete) limit it. `ChangeFeedGap` when a cleanup has removed what is requested.
        """
        feed = self.change_feed(branch=branch)
        return feed.page(since, limit=limit, only=feed.only(types, kinds, ops))

    def change_feed(self, *, branch: str = MAIN) -> ChangeFeed:
        """The change feed of a branch: positions, commits, and the changes of each, table by table."""
        from omnigraph.history.change_feed import ChangeFeed

        return self._feeds.setdefault(branch, ChangeFeed(self._manifest, branch))

    def commit_changes(
        self,
        commit_id: str,
        *,
        types: Sequence[str] | None = None,
        kinds: Sequence[EntityKind] | None = None,
        ops: Sequence[ChangeOp] | None = None,
    ) -> CommitChanges:
        """What one commit did against its first parent; iterate it, or take Arrow from its `deltas()`."""
        from omnigraph.history.change_feed import changes_of, wanted

        branch_manifest, commit = self._manifest.find(commit_named(self._manifest, commit_id).id)
        return changes_of(self._manifest, commit.id, wanted(branch_manifest.locations, types, kinds, ops))

    def baseline(self, *, branch: str = MAIN, types: Sequence[str] | None = None) -> Baseline:
        """The newest state of a branch to start a copy from: its `records()`, and the `cursor` to update it with."""
        from omnigraph.history.change_feed import take_baseline

        return take_baseline(self._manifest, self.change_feed(branch=branch), self._schemas, types)

    @renamed_keywords(commit_id="at", removed_in="0.3")
    def export(
        self,
        path: str | os.PathLike[str],
        *,
        branch: str = MAIN,
        at: State | None = None,
        format: Literal["jsonl", "parquet", "csv"] = "jsonl",  # noqa: A002 - the word everybody uses
        types: Sequence[str] | None = None,
        engine: Literal["local", "spark"] = "local",
        spark: SparkSession | None = None,
    ) -> list[Path | str]:
        """Write one state of the graph to files: graph records in one file, or a Parquet or CSV file per type.

        With `engine="spark"` many tasks write many files, of any format, below a new directory or a prefix of a bucket.
        What is exported and loaded into an empty graph of the same schema is the same graph.
        """
        from omnigraph.graph.backends import Export

        require_engine(engine, CHOSEN)
        state = resolve(self._manifest, at, branch=branch)
        export = Export(state, self.catalog_of(state), path, format, types)
        if engine == "spark":
            return export.write_on_spark(self._manifest, spark)
        return export.write(self._manifest)

    def ensure_indices(self, *, branch: str = MAIN, engine: Engine = "auto", actor: str | None = None) -> IndexReport:
        """Build the indexes that the schema declares and that are missing, as one commit.

        `engine="spark"` builds the segments of each index with Spark tasks.
        """
        from omnigraph.graph.backends import index_builder
        from omnigraph.maintenance.indexes import IndexBuild

        build, catalog = index_builder(engine), self.catalog_of(self.snapshot(branch=branch))
        return IndexBuild(self._manifest, catalog, branch=branch, actor=actor or self.actor, build=build).run()

    def optimize(self, *, branch: str = MAIN, engine: Engine = "auto", actor: str | None = None) -> OptimizeReport:
        """Compact small fragments, complete the declared indexes and compact `__manifest`, as one commit.
        The history stays.

        `engine="spark"` rewrites and indexes the tables with Spark tasks. Tables that another program has written
        to are skipped, and the report says so.
        """
        from omnigraph.graph.backends import index_builder, rewriter
        from omnigraph.maintenance.optimize import Optimize

        execute, build = rewriter(engine), index_builder(engine)
        catalog = self.catalog_of(self.snapshot(branch=branch))
        return Optimize(self._manifest, catalog, branch, actor=actor or self.actor, execute=execute, build=build).run()

    def cleanup(
        self,
        *,
        keep: int | None = 10,
        older_than: dt.timedelta | str | None = None,
        grace: dt.timedelta | str = dt.timedelta(minutes=10),
        dry_run: bool = False,
    ) -> CleanupReport:
        """Delete table versions that no branch's newest `keep` commits need, and files that nothing needs.

        Tagged commits stay, and the states that branches began with or last merged. With `older_than`, commits younger
        than that stay as well; with `keep=None` it decides alone. What was the newest state within `grace` stays for
        readers that hold it. Durations are timedeltas or texts such as `"7d"` (s, m, h, d or w). `dry_run` only reports
        what would be deleted. A commit whose state was deleted stays in the history; reading it raises
        `VersionReclaimed`.
        """
        from omnigraph.maintenance.cleanup import Cleanup, duration

        age = None if older_than is None else duration(older_than)
        return Cleanup(self._manifest, keep, age, duration(grace), dry_run=dry_run).run()

    def repair(self, *, confirm: bool = False, force: bool = False, actor: str | None = None) -> RepairReport:
        """Look for tables that another program has moved, and with `confirm` take their newest versions into the graph.

        Changes that only rearranged files are taken by `confirm` alone; those that may have changed rows need `force`
        as well, because nothing has validated them.
        """
        from omnigraph.maintenance.repair import Repair

        return Repair(self._manifest, confirm=confirm, force=force, actor=actor or self.actor).run()

    def plan_schema(self, schema: str | Path, *, allow_data_loss: bool = False) -> MigrationPlan:
        """The steps from the graph's schema to another one; print it, or take its `to_dict()`. Nothing is changed.

        `schema` is the text of a `.pg` schema, or a `Path` to one. `allow_data_loss`: dropped data is deleted.
        """
        self._manifest.fresh_branch(MAIN)
        return self._schema_change(schema, allow_data_loss=allow_data_loss).plan()

    def apply_schema(
        self, schema: str | Path, *, allow_data_loss: bool = False, actor: str | None = None, dry_run: bool = False
    ) -> Applied:
        """Change the schema as one commit: all of it, or nothing.

        Rows are converted to the new schema, and must satisfy every new rule. Dropped data can still be read at earlier
        commits, unless `allow_data_loss` allows deleting it. `SchemaChangeRefused` says what prevents the change: a
        step, rows, or other branches. `behind` of the report names branches that keep the earlier schema. `dry_run`
        checks all of that and changes nothing.
        """

        def attempt(_: str | None) -> Applied:
            change = self._schema_change(schema, allow_data_loss=allow_data_loss, actor=actor or self.actor)
            return change.preview() if dry_run else change.run()

        self._manifest.fresh_branch(MAIN)
        return self._schemas.attempt(MAIN, attempt)

    def _schema_change(self, schema: str | Path, *, allow_data_loss: bool, actor: str | None = None) -> SchemaApply:
        from omnigraph.ddl.apply import SchemaApply
        from omnigraph.language.schema.compile import compile_schema

        source = text_of(schema)
        desired = compile_schema(source, str(schema) if isinstance(schema, Path) else "<schema>")
        accepted = self._schemas.current()
        return SchemaApply(self._manifest, accepted, source, desired, allow_data_loss=allow_data_loss, actor=actor)

    @renamed_keywords(commit_id="at", removed_in="0.3")
    def snapshot(
        self,
        *,
        branch: str = MAIN,
        at: State | None = None,
        version: int | None = None,
    ) -> Snapshot:
        """Which version of each table makes up the graph: a branch as it is now, a state, or a manifest version."""
        if version is None:
            return resolve(self._manifest, at, branch=branch)
        if at is not None:
            raise InvalidInput("a snapshot is of one state: give at or version.")
        return snapshot_at_version(self._manifest, branch, version)

    @renamed_keywords(snapshot="at", removed_in="0.3")
    def entity(self, type_name: str, entity_id: str, *, branch: str = MAIN, at: State | None = None) -> Entity | None:
        """One node or edge as it is on a branch or in a state; None if it does not exist."""
        from omnigraph.history.entities import entity_at

        state = resolve(self._manifest, at, branch=branch)
        return entity_at(self._manifest.stores.tables, state, type_name, entity_id)

    @renamed_keywords(snapshot="at", removed_in="0.3")
    def blob(
        self,
        type_name: str,
        entity_id: str,
        property_name: str,
        *,
        branch: str = MAIN,
        at: State | None = None,
    ) -> Blob:
        """A blob of a node or edge, to be read whole or in parts; `NotFound` if there is none."""
        from omnigraph.query.blob import open_blob

        state, tables = resolve(self._manifest, at, branch=branch), self._manifest.stores.tables
        return open_blob(state, tables, self.catalog_of(state), type_name, entity_id, property_name)

    def history(self, type_name: str, entity_id: str, *, branch: str = MAIN, at: State | None = None) -> EntityHistory:
        """All versions of a node or edge up to a state, with the commits that wrote them, the newest first."""
        from omnigraph.history.entities import history_of

        state = resolve(self._manifest, at, branch=branch)
        return history_of(self._manifest, state, type_name, entity_id)

    def revert(
        self,
        commit_id: str,
        *,
        branch: str = MAIN,
        resolve: Resolver = None,
        by_property: bool = True,
        actor: str | None = None,
        dry_run: bool = False,
    ) -> Reverted:
        """Revert the changes of a commit, as a new commit.

        What was changed since is a conflict, resolved by `resolve` as in a merge: `"ours"` is the branch as it is,
        `"theirs"` as it was before the commit. Remaining conflicts raise `RevertConflicts`, and nothing is written.
        """
        from omnigraph.graph.backends import merge_backend
        from omnigraph.history.merge.conflicts import require_resolver
        from omnigraph.history.merge.merge import Revert
        from omnigraph.history.merge.reconcile import MergeSettings

        def attempt(_: str | None) -> Reverted:
            settings = MergeSettings(by_property=by_property, resolver=resolve, merge_backend=large)
            revert = Revert(self._manifest, self._schemas, commit.id, branch, settings)
            return revert.preview() if dry_run else revert.run(actor or self.actor)

        require_resolver(resolve)
        commit = commit_named(self._manifest, commit_id)
        with merge_backend("local", None, self._manifest.world) as large:
            return self._schemas.attempt(branch, attempt)

    def commits(self, *, branch: str = MAIN) -> CommitLog:
        """The history of a branch, the newest commit first: a list of `GraphCommit`."""
        return CommitLog(self._manifest.lineage(branch).newest_first())

    def commit(self, commit_id: str) -> GraphCommit:
        """One commit, by its id or by any name of its state."""
        return commit_named(self._manifest, commit_id)

    def recoveries(self) -> list[Recovery]:
        """The interrupted operations that were completed or rolled back, the oldest first."""
        from omnigraph.transaction.recovery.audit import recoveries

        return recoveries(self._manifest.stores)

    def refresh(self) -> None:
        """Complete or roll back interrupted operations, and read what others have committed."""
        from omnigraph.transaction.recovery.outcome import sweep

        if not self.read_only:
            sweep(self._manifest)
        self._manifest.fresh_branch(MAIN)

    def _embeddings(self) -> Embeddings:
        from omnigraph.embeddings.embedder import from_environment

        return self.embeddings if self.embeddings is not None else from_environment(self._manifest.world)

    @property
    def _reading(self) -> QueryRunner:
        from omnigraph.query.run import QueryRunner

        return QueryRunner(self._manifest, self._schemas, self._queries, self._embeddings)

    def _request(
        self,
        source: str | Path,
        params: Mapping[str, object] | None,
        branch: str,
        at: State | None,
        name: str | None,
        options: ReadOptions,
    ) -> ReadRequest:
        from omnigraph.query.run import ReadRequest

        return ReadRequest(text_of(source), params, name, resolve(self._manifest, at, branch=branch), options)

    def close(self) -> None:
        """Release the caches and handles. Any later use raises `GraphClosed`; results that were returned stay."""
        self._feeds.clear()
        self._queries = QueryCache()
        self._manifest.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def __repr__(self) -> str:
        mode = ", closed" if self._manifest.is_closed else ", read-only" if self.read_only else ""
        return f"<Graph {self.uri}{mode}>"

    def _repr_html_(self) -> str:
        if self._manifest.is_closed:
            return html_rows(("graph",), [(repr(self),)])
        rows: list[tuple[object, ...]] = [(each.table_key, f"{each.row_count:,}") for each in self.snapshot()]
        return html_rows((self.uri, "rows"), rows)


def _opened_again(
    location: Location, read_only: bool, minor_compaction: CompactionPolicy | None, actor: str | None
) -> Graph:
    """Open the graph of a pickled object in the process that received it, with that process's clock and environment."""
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.world import REAL

    return Graph(
        GraphManifest(location, world=REAL, read_only=read_only, minor_compaction=minor_compaction), actor=actor
    )
