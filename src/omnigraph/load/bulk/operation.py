"""A bulk load as an operation of the commit protocol.

The input is read and written as fragments once; each `prepare` validates the same fragments against its read view.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from omnigraph.load.bulk.quarantine import quarantine_violations
from omnigraph.load.bulk.read import InputRead
from omnigraph.load.bulk.rejects import counts_of, reading_error, repeated_error, value_error, write_rejects
from omnigraph.load.bulk.row_rewrite import find_replacements, stage_merge
from omnigraph.load.operation import LoadSummary, load_operation, rows_of_kind
from omnigraph.load.rows import rows_schema
from omnigraph.storage.tables.staging import Staged, stage_content, stage_fragments
from omnigraph.tasks.staged_rows import bring_files
from omnigraph.transaction.commit.protocol import ANY_SCHEMA, AnySchema, Receipt, commit
from omnigraph.transaction.constraints.exchange.candidates import CandidateSearch
from omnigraph.transaction.constraints.exchange.plan import plan_checks
from omnigraph.transaction.constraints.exchange.violations import ViolationSearch
from omnigraph.transaction.write_set import TableWrite, WriteSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.load.bulk.read import Written
    from omnigraph.load.bulk.rejects import Reject
    from omnigraph.load.plan import LoadOptions, LoadPlan
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.storage.tables.table import Table
    from omnigraph.tasks.runner import TaskRunner
    from omnigraph.tasks.staged_rows import StagedRows
    from omnigraph.transaction.read_view import ReadView
    from omnigraph.world import World


@dataclass
class BulkLoad:
    """One load on a task runner. `seconds` holds the elapsed time of each stage."""

    reading: InputRead
    seconds: dict[str, float] = field(default_factory=dict)
    written: Written | None = None
    loaded: Written | None = None
    rejects: tuple[Reject, ...] = ()

    @property
    def is_repeatable(self) -> bool:
        """Whether it may be prepared again on a newer snapshot. Not for overwrite, which would drop other writes."""
        return self.reading.mode != "overwrite"

    def prepare(self, view: ReadView) -> WriteSet:
        """Read the input on the first call, validate it against the read view, and return what to stage."""
        if self.written is None:
            with self._stage("read and write"):
                self.written = self.reading.run(view.snapshot, view.tables.location)
        with self._stage("validate"):
            self.loaded = self._validated(view, self.written)
        tables = self.loaded.tables
        writes = [self._write(view, key, tables[key]) for key in sorted(tables)]
        return WriteSet([each for each in writes if each is not None])

    def _validated(self, view: ReadView, written: Written) -> Written:
        """The rows that satisfy every rule in the read view. Bad rows raise, or are set aside if the policy permits."""
        error = reading_error(written.errors)
        if error is not None:
            raise error
        for key in written.tables:
            view.entry(key)
        policy = self.reading.policy
        if policy.fails:
            self._validate(view, written)
            return written
        quarantined = quarantine_violations(self.reading, written, view)
        self.rejects = quarantined.rejects
        if policy.path is not None:
            write_rejects(self.rejects, policy.path, self.reading.world)
        return quarantined.written

    def _validate(self, view: ReadView, written: Written) -> None:
        wrong_value = value_error(written.errors)
        reading = self.reading
        plan = plan_checks(reading.catalog, view, written.tables, reading.mode, ids_only=wrong_value is not None)
        candidates = CandidateSearch(reading.runner, plan, reading.directory)
        search = ViolationSearch(reading.catalog, reading.mode, written.tables, candidates)
        if candidates:
            self._refuse_duplicates(search, written)
        if wrong_value is not None:
            raise wrong_value
        if candidates:
            for violation in search.violations():
                raise violation.error

    def _refuse_duplicates(self, search: ViolationSearch, written: Written) -> None:
        ordinals = {key: ordinal for ordinal, key in enumerate(written.tables)}
        for each in sorted(search.duplicates(), key=lambda each: (ordinals[each.table_key], each.second)):
            table, rows = written.tables[each.table_key], (each.first, each.second)
            reading = self.reading
            raise repeated_error(table, each.row_id, rows, written.units, reading.readable, reading.world)

    def _write(self, view: ReadView, key: str, table: StagedRows) -> TableWrite | None:
        entry = view.entry(key)
        stage: Callable[[Table], Staged]
        if self.reading.mode == "overwrite":
            stage = partial(_stage_overwrite, staged=table, world=self.reading.world)
        elif not table.rows:
            return None
        elif self.reading.mode == "append" or table.is_minted or not entry.row_count:
            stage = partial(_stage_append, staged=table, world=self.reading.world)
        else:
            with self._stage("match"):
                found = find_replacements(self.reading.runner, view, table)
            stage = (
                partial(_stage_append, staged=table, world=self.reading.world)
                if found is None
                else partial(stage_merge, runner=self.reading.runner, replacements=found, world=self.reading.world)
            )
        return TableWrite(entry, stage)

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        world = self.reading.world
        started = world.monotonic()
        try:
            with self.reading.runner.progress(name, world):
                yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + world.monotonic() - started


def run_bulk_load(
    manifest: GraphManifest,
    catalog: Catalog,
    plan: LoadPlan,
    options: LoadOptions,
    runner: TaskRunner,
    *,
    schema: str | AnySchema | None = ANY_SCHEMA,
) -> tuple[Receipt, LoadSummary]:
    """Run a load plan on a task runner. A reused idempotency key returns the earlier commit and reads nothing.

    `schema` is the schema of `catalog`: if the branch has another one at commit, this raises `SchemaChanged`.
    """
    world, errors = manifest.world, options.errors
    started = world.monotonic()
    embeddings = None if options.embeddings is None else options.embeddings()
    # A load takes long. Started from a stale snapshot, it would be validated again while other writers wait.
    manifest.fresh_branch(options.branch)
    with runner.shared_directory() as directory:
        reading = InputRead(runner, catalog, plan, options.mode, world, errors, directory, options.strict, embeddings)
        load = BulkLoad(reading)
        receipt = commit(manifest, load_operation(load.prepare, options, repeatable=load.is_repeatable, schema=schema))
    assert receipt is not None, "a load always makes a commit"
    return receipt, _summary(load, plan, world.monotonic() - started)


def _summary(load: BulkLoad, plan: LoadPlan, seconds: float) -> LoadSummary:
    tables = {} if load.loaded is None else load.loaded.tables
    counts = {key: table.rows for key, table in sorted(tables.items())}
    return LoadSummary(
        nodes=rows_of_kind(counts, "node:"),
        edges=rows_of_kind(counts, "edge:"),
        seconds=seconds,
        bytes=plan.size,
        engine=load.reading.runner.engine,
        stages={**load.seconds, "commit": max(0.0, seconds - sum(load.seconds.values()))},
        rejected=counts_of(load.rejects),
        rejects=load.reading.policy.path if load.rejects else None,
    )


def _stage_append(table: Table, staged: StagedRows, world: World) -> Staged:
    bring_files(table, staged, world)
    return stage_fragments(table, [each.metadata() for each in staged.fragments])


def _stage_overwrite(table: Table, staged: StagedRows, world: World) -> Staged:
    bring_files(table, staged, world)
    return stage_content(table, rows_schema(staged.type), [each.metadata() for each in staged.fragments])
