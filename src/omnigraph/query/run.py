"""A checked query over one immutable snapshot: run it, stream it, explain it, measure it.

A read that `Graph` is asked for: one state of the graph, and a query checked against its schema.
"""

from __future__ import annotations

import datetime as dt
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
from omnigraph.world import REAL

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
    """A checked query with its values, and the state of the graph that it is asked of.

    `params` are values from `bind_params`; `now` is the instant that `now()` means, if it is not this one.
    """

    snapshot: Snapshot
    tables: TableStore
    catalog: Catalog
    checked: CheckedQuery
    params: Mapping[str, object]
    options: ReadOptions = DEFAULT_OPTIONS
    now: dt.datetime | None = None
    world: World = REAL
    cache: ReadCache | None = None

    def run(self) -> Result:
        """The whole result."""
        with self._planned() as planned:
            return planned.result()

    def stream(self) -> pa.RecordBatchReader:
        """The result as a reader of Arrow batches, which are made as they are taken.

        Limits of time and memory hold until the last one. A reader that is not read to its end is to be closed.
        """
        options = replace(self.options, batch_rows=min(self.options.batch_rows, MATCHED))
        return replace(self, options=options).plan().stream()

    def explain(self) -> Explanation:
        """How the query would run: operators in order, with estimates and the ways they would go."""
        planned = self.plan()
        return explanation(planned.scope.read, self.checked, planned.steps, None)

    def analyze(self) -> tuple[Result, Explanation]:
        """Run the query and tell how it ran: rows and time of each operator, and the ways they went."""
        with self._planned() as planned:
            result = planned.result()
        read = planned.scope.read
        ran = read.replanned[-1] if read.replanned else planned.steps
        return result, explanation(read, self.checked, ran, read.profile)

    @cached_property
    def moment(self) -> dt.datetime:
        """What `now()` means."""
        return self.now or dt.datetime.fromtimestamp(self.world.now_us() // 1_000 / 1_000, dt.UTC)

    def plan(self) -> Planned:
        """Plan the query without running it."""
        cache, checked = self.cache or cache_of(self.tables), self.checked
        deadline = Deadline(self.options, self.world)
        read = QueryContext(
            snapshot=self.snapshot,
            store=self.tables,
            catalog=self.catalog,
            params=self.params,
            now=self.moment,
            uses_now=checked.uses_now,
            options=self.options,
            cache=cache,
            engine=Engine(self.options, deadline),
            deadline=deadline,
            profile=Profile(self.world),
            query_number=cache.number_of(checked),
        )
        scope = Scope(read, {each.name: each for each in visible(checked.pattern)}, Searches(read))
        planner = Planner(Estimates(self.snapshot, self.catalog), RequestValues(self.params, self.moment))
        # Sizes only guide the choices of a plan: one of the same snapshot serves again.
        state = (self.snapshot.branch, self.snapshot.manifest_version)
        key = (read.query_number, read.values_key, self.moment if checked.uses_now else None, state)
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
    """A query that is ready to run: its plan, and everything the steps share."""

    checked: CheckedQuery
    scope: Scope
    planner: Planner
    steps: tuple[Step, ...]

    def run(self) -> pa.Table:
        """The result."""
        maker = ResultRows(self.scope, self.checked)
        with self.scope.read.profile.timing(self.checked) as measured:
            result = finished(self.scope, self.checked, maker.result(self._matches(maker.bounds())))
            measured.rows = result.num_rows
        return result

    def stream(self) -> pa.RecordBatchReader:
        """The result as a stream."""
        if is_batchwise(self.checked):
            self.scope.read.streamed = columns_by_variable(self.scope, self.checked)
        schema = result_schema(self.scope, self.checked)
        return pa.RecordBatchReader.from_batches(schema, self._batches(schema))

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        maker = ResultRows(self.scope, self.checked)
        try:
            for batch in ResultBatches(maker).of(self._matches(maker.bounds())):
                yield from finished(self.scope, self.checked, batch).cast(schema).to_batches(max_chunksize=BATCH)
        finally:
            self.scope.read.engine.close()

    def result(self) -> Result:
        """The result, which knows what its columns of entities are."""
        return Result(self.run(), entity_columns(self.checked, self.scope.read.catalog))

    def _matches(self, bounds: LimitOffset) -> Iterator[Bindings]:
        wanted = 0 if bounds.limit is None else bounds.limit + bounds.offset
        best = TopK(self.scope, self.checked, self._pushed, self._match_chosen).matches(wanted)
        return Matcher(self.scope).run(self.steps) if best is None else best

    def _match_chosen(self) -> Iterator[Bindings]:
        """The matches of the rows that a search has chosen, beginning with them."""
        known = {name: len(rows) for name, rows in self.scope.read.chosen.items()}
        planner = replace(self.planner, estimates=replace(self.planner.estimates, known=known))
        steps = planner.plan(self.checked.pattern, {}, needed_variables(self.checked))
        self.scope.read.replanned.append(steps)
        return Matcher(self.scope).run(steps)

    def _pushed(self, variable: str) -> Filter | None:
        sorted_ = sort_conditions(self.checked.pattern, frozenset(), self.planner.values)
        return sorted_.about(variable).pushed


@dataclass(frozen=True)
class ReadRequest:
    """What is asked of which state. `name` picks one of several queries of the source."""

    source: str
    params: Mapping[str, object] | None
    name: str | None
    state: Snapshot
    options: ReadOptions


@dataclass(frozen=True)
class QueryRunner:
    """Reads of an open graph. `embeddings` makes vectors of texts that are looked for."""

    manifest: GraphManifest
    schemas: Schemas
    queries: QueryCache
    embeddings: Callable[[], Embeddings]

    def run(self, request: ReadRequest) -> Result:
        """The rows."""
        return self.prepared(request).run()

    def stream(self, request: ReadRequest) -> pa.RecordBatchReader:
        """The rows as batches, which are made as they are taken."""
        return self.prepared(request).stream()

    def explain(self, request: ReadRequest) -> Explanation:
        """How it would run."""
        return self.prepared(request).explain()

    def analyze(self, request: ReadRequest) -> tuple[Result, Explanation]:
        """The rows, and how it ran."""
        return self.prepared(request).analyze()

    def prepared(self, request: ReadRequest) -> PreparedQuery:
        """A query that was checked, with its values, and the one state of the graph that it is asked of."""
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
        """The vector of a text that is looked for."""
        found = self.embeddings().of_property([text], declared, purpose="query", world=self.manifest.world)
        vector: list[float] = found[0].tolist()
        return vector
