"""A checked query over one immutable snapshot: run it, stream it, explain it, measure it."""

from __future__ import annotations

import datetime as dt
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.read.cache import ReadCache, cache_of
from omnigraph.read.execute.deadline import Deadline
from omnigraph.read.execute.engine import Engine
from omnigraph.read.execute.match import Matcher
from omnigraph.read.execute.objects import finished, result_schema
from omnigraph.read.execute.outcome import Maker
from omnigraph.read.execute.profile import Profile
from omnigraph.read.execute.read import Read
from omnigraph.read.execute.scope import Scope
from omnigraph.read.execute.streaming import MATCHED, PIECE, Pieces, columns_by_variable, is_piecewise
from omnigraph.read.explain import Explanation, explanation
from omnigraph.read.options import DEFAULT_OPTIONS
from omnigraph.read.plan.build import Planner, visible
from omnigraph.read.plan.estimates import Estimates
from omnigraph.read.plan.needs import needed_variables
from omnigraph.read.plan.sorting import sort_conditions
from omnigraph.read.result import Result
from omnigraph.read.result_graph import entity_columns
from omnigraph.read.search.deepening import Deepening
from omnigraph.read.search.searches import Searches
from omnigraph.relational.request import RequestValues
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from omnigraph.language.query.checked import CheckedQuery
    from omnigraph.language.schema.catalog import Catalog
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.read.execute.rows import Rows
    from omnigraph.read.options import ReadOptions
    from omnigraph.read.plan.operators import Step
    from omnigraph.relational.outcome import Bounds
    from omnigraph.store.filters import Filter
    from omnigraph.store.tables import TableStore
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
        read = Read(
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
        maker = Maker(self.scope, self.checked)
        with self.scope.read.profile.timing(self.checked) as measured:
            result = finished(self.scope, self.checked, maker.result(self._matches(maker.bounds())))
            measured.rows = result.num_rows
        return result

    def stream(self) -> pa.RecordBatchReader:
        """The result as a stream."""
        if is_piecewise(self.checked):
            self.scope.read.streamed = columns_by_variable(self.scope, self.checked)
        schema = result_schema(self.scope, self.checked)
        return pa.RecordBatchReader.from_batches(schema, self._batches(schema))

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        maker = Maker(self.scope, self.checked)
        try:
            for piece in Pieces(maker).of(self._matches(maker.bounds())):
                yield from finished(self.scope, self.checked, piece).cast(schema).to_batches(max_chunksize=PIECE)
        finally:
            self.scope.read.engine.close()

    def result(self) -> Result:
        """The result, which knows what its columns of entities are."""
        return Result(self.run(), entity_columns(self.checked, self.scope.read.catalog))

    def _matches(self, bounds: Bounds) -> Iterator[Rows]:
        wanted = 0 if bounds.limit is None else bounds.limit + bounds.offset
        best = Deepening(self.scope, self.checked, self._pushed, self._match_chosen).matches(wanted)
        return Matcher(self.scope).run(self.steps) if best is None else best

    def _match_chosen(self) -> Iterator[Rows]:
        """The matches of the rows that a search has chosen, beginning with them."""
        known = {name: len(rows) for name, rows in self.scope.read.chosen.items()}
        planner = replace(self.planner, estimates=replace(self.planner.estimates, known=known))
        steps = planner.plan(self.checked.pattern, {}, needed_variables(self.checked))
        self.scope.read.replanned.append(steps)
        return Matcher(self.scope).run(steps)

    def _pushed(self, variable: str) -> Filter | None:
        sorted_ = sort_conditions(self.checked.pattern, frozenset(), self.planner.values)
        return sorted_.about(variable).pushed
