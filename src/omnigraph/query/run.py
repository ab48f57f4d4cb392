"""Runs, streams, explains or profiles one checked query over one immutable snapshot.

`QueryRunner` is what `Graph` calls: it checks the text of a request against the schema of its snapshot and binds the
parameters. The resulting `PreparedQuery` plans the query and runs it.
"""

from __future__ import annotations

import datetime as dt
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.cache import ReadCache, cache_of
from omnigraph.errors import InvalidInput
from omnigraph.expressions.pushdown import RequestValues
from omnigraph.language.ir.params import bind_params
from omnigraph.language.ir.query import CheckedMutation
from omnigraph.query.exec.context import QueryContext
from omnigraph.query.exec.duckdb import Engine
from omnigraph.query.exec.entities import finished, result_schema
from omnigraph.query.exec.limits import DEFAULT_OPTIONS, Deadline, Profile
from omnigraph.query.exec.matcher import Matcher
from omnigraph.query.exec.result_rows import ResultRows
from omnigraph.query.exec.scope import Scope
from omnigraph.query.exec.searches import Searches
from omnigraph.query.exec.streaming import BATCH, MATCHED, ResultBatches, columns_by_variable, is_batchwise
from omnigraph.query.exec.top_k import TopK
from omnigraph.query.explain import Explanation, explanation
from omnigraph.query.plan.conditions import needed_variables, sort_conditions
from omnigraph.query.plan.estimates import Estimates
from omnigraph.query.plan.planner import Planner, visible
from omnigraph.query.result.picture import entity_columns
from omnigraph.query.result.result import Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from omnigraph.catalog.catalog import Catalog, Property
    from omnigraph.embeddings.embedder import Embeddings
    from omnigraph.expressions.result_query import LimitOffset
    from omnigraph.language.gq.compile import QueryCache
    from omnigraph.language.ir.query import CheckedQuery
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.query.exec.bindings import Bindings
    from omnigraph.query.exec.limits import ReadOptions
    from omnigraph.query.plan.operators import Step
    from omnigraph.storage.filters.model import Filter
    from omnigraph.storage.tables.table import TableStore
    from omnigraph.transaction.schemas import Schemas
    from omnigraph.world import World


@dataclass(frozen=True)
class PreparedQuery:
    """A checked query, its parameter values, and the snapshot that it reads.

    `params` are values from `bind_params`. `now` is the instant that `now()` returns; None means the current time.
    """

    snapshot: Snapshot
    tables: TableStore
    catalog: Catalog
    checked: CheckedQuery
    params: Mapping[str, object]
    options: ReadOptions = DEFAULT_OPTIONS
    _: KW_ONLY
    world: World
    now: dt.datetime | None = None
    cache: ReadCache | None = None

    def run(self) -> Result:
        """Run the query and return the whole result."""
        with self._planned() as planned:
            return planned.result()

    def stream(self) -> pa.RecordBatchReader:
        """Return the result as a reader of Arrow batches, which are computed as the caller reads them.

        Limits of time and memory apply until the last batch. A caller that stops before the end must close the reader.
        """
        options = replace(self.options, batch_rows=min(self.options.batch_rows, MATCHED))
        return replace(self, options=options).plan().stream()

    def explain(self) -> Explanation:
        """Describe the plan without running it: operators in order, with their estimates and access paths."""
        planned = self.plan()
        return explanation(planned.scope.read, self.checked, planned.steps, None)

    def analyze(self) -> tuple[Result, Explanation]:
        """Run the query and describe the run: rows and time of each operator, and the access paths they used."""
        with self._planned() as planned:
            result = planned.result()
        read = planned.scope.read
        ran = read.replanned[-1] if read.replanned else planned.steps
        return result, explanation(read, self.checked, ran, read.profile)

    @cached_property
    def timestamp(self) -> dt.datetime:
        """The instant that `now()` returns in this query, in whole milliseconds."""
        return self.now or dt.datetime.fromtimestamp(self.world.now_ms() / 1_000, dt.UTC)

    def plan(self) -> Planned:
        """Plan the query without running it."""
        cache, checked = self.cache or cache_of(self.tables), self.checked
        deadline = Deadline(self.options, self.world)
        read = QueryContext(
            snapshot=self.snapshot,
            store=self.tables,
            catalog=self.catalog,
            params=self.params,
            now=self.timestamp,
            uses_now=checked.uses_now,
            options=self.options,
            cache=cache,
            engine=Engine(self.options, deadline),
            deadline=deadline,
            profile=Profile(self.world),
            query_number=cache.number_of(checked),
        )
        scope = Scope(read, {each.name: each for each in visible(checked.pattern)}, Searches(read))
        planner = Planner(Estimates(self.snapshot, self.catalog), RequestValues(self.params, self.timestamp))
        # Table sizes only guide the choices of the planner, so a plan is cached for its snapshot.
        state = (self.snapshot.branch, self.snapshot.manifest_version)
        key = (read.query_number, read.values_key, self.timestamp if checked.uses_now else None, state)
        steps = cache.get(
            "plan", key, lambda: planner.plan(checked.pattern, {}, needed_variables(checked)), lambda _: 10_000
        )
        return Planned(checked, scope, planner, steps)

    @contextmanager
    def _planned(self) -> Iterator[Planned]:
        planned = self.plan()
        try:
            yield planned
        finally:
            planned.scope.read.engine.close()


@dataclass(frozen=True)
class Planned:
    """A planned query that is ready to run: its operators, and the scope that they share."""

    checked: CheckedQuery
    scope: Scope
    planner: Planner
    steps: tuple[Step, ...]

    def run(self) -> pa.Table:
        """Run the plan and return the rows of the result."""
        result_rows = ResultRows(self.scope, self.checked)
        with self.scope.read.profile.timing(self.checked) as measured:
            result = finished(self.scope, self.checked, result_rows.result(self._matches(result_rows.bounds())))
            measured.rows = result.num_rows
        return result

    def stream(self) -> pa.RecordBatchReader:
        """Run the plan as its batches are read."""
        if is_batchwise(self.checked):
            self.scope.read.streamed = columns_by_variable(self.scope, self.checked)
        schema = result_schema(self.scope, self.checked)
        return pa.RecordBatchReader.from_batches(schema, self._batches(schema))

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        result_rows = ResultRows(self.scope, self.checked)
        try:
            for batch in ResultBatches(result_rows).of(self._matches(result_rows.bounds())):
                yield from finished(self.scope, self.checked, batch).cast(schema).to_batches(max_chunksize=BATCH)
        finally:
            self.scope.read.engine.close()

    def result(self) -> Result:
        """Run the plan and return the rows, together with which columns hold entities."""
        return Result(self.run(), entity_columns(self.checked, self.scope.read.catalog))

    def _matches(self, bounds: LimitOffset) -> Iterator[Bindings]:
        wanted = 0 if bounds.limit is None else bounds.limit + bounds.offset
        best = TopK(self.scope, self.checked, self._pushed, self._match_chosen).matches(wanted)
        return Matcher(self.scope).run(self.steps) if best is None else best

    def _match_chosen(self) -> Iterator[Bindings]:
        """Match the pattern again, with a plan that starts from the rows that a ranking has chosen."""
        chosen_counts = {name: len(rows) for name, rows in self.scope.read.chosen.items()}
        planner = replace(self.planner, estimates=replace(self.planner.estimates, chosen_counts=chosen_counts))
        steps = planner.plan(self.checked.pattern, {}, needed_variables(self.checked))
        self.scope.read.replanned.append(steps)
        return Matcher(self.scope).run(steps)

    def _pushed(self, variable: str) -> Filter | None:
        sorted_ = sort_conditions(self.checked.pattern, frozenset(), self.planner.values)
        return sorted_.about(variable).pushed


@dataclass(frozen=True)
class ReadRequest:
    """One read of one snapshot. `name` selects a query when the source has several."""

    source: str
    params: Mapping[str, object] | None
    name: str | None
    state: Snapshot
    options: ReadOptions


@dataclass(frozen=True)
class QueryRunner:
    """Prepares and runs the reads of an open graph. `embeddings` turns a search text into a vector."""

    manifest: GraphManifest
    schemas: Schemas
    queries: QueryCache
    embeddings: Callable[[], Embeddings]

    def run(self, request: ReadRequest) -> Result:
        """Run the query and return the whole result."""
        return self.prepared(request).run()

    def stream(self, request: ReadRequest) -> pa.RecordBatchReader:
        """Return the result as a reader of Arrow batches, which are computed as the caller reads them."""
        return self.prepared(request).stream()

    def explain(self, request: ReadRequest) -> Explanation:
        """Describe the plan without running it."""
        return self.prepared(request).explain()

    def analyze(self, request: ReadRequest) -> tuple[Result, Explanation]:
        """Run the query and describe the run."""
        return self.prepared(request).analyze()

    def prepared(self, request: ReadRequest) -> PreparedQuery:
        """Check the query against the schema of the snapshot and bind its parameters; refuses a mutation."""
        catalog = self.schemas.of(request.state.schema).catalog
        checked = self.queries.checked(request.source, request.name, catalog)
        if isinstance(checked, CheckedMutation):
            raise InvalidInput(f"query {checked.name!r} changes the graph: run it with mutate().")
        params, options = bind_params(checked, request.params), self._options(request)
        tables, world = self.manifest.stores.tables, self.manifest.world
        return PreparedQuery(request.state, tables, catalog, checked, params, options, world=world)

    def _options(self, request: ReadRequest) -> ReadOptions:
        options = request.options
        return options if options.embed is not None else replace(options, embed=self._embedded)

    def _embedded(self, text: str, declared: Property) -> Sequence[float]:
        """The query vector of a search text, made by the embedder of the property."""
        found = self.embeddings().of_property([text], declared, purpose="query", world=self.manifest.world)
        vector: list[float] = found[0].tolist()
        return vector
