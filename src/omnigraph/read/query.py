"""A checked query over one immutable snapshot: run it, explain it, measure it."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from omnigraph.read.cache import ReadCache, cache_of
from omnigraph.read.execute.deadline import Deadline
from omnigraph.read.execute.engine import Engine
from omnigraph.read.execute.match import Matcher
from omnigraph.read.execute.objects import finished
from omnigraph.read.execute.outcome import Maker
from omnigraph.read.execute.profile import Profile
from omnigraph.read.execute.read import Read
from omnigraph.read.execute.scope import Scope
from omnigraph.read.explain import Explanation, explanation
from omnigraph.read.options import DEFAULT_OPTIONS
from omnigraph.read.plan.build import Planner, visible
from omnigraph.read.plan.estimates import Estimates
from omnigraph.read.plan.needs import needed_variables
from omnigraph.read.plan.pushdown import Pushdown
from omnigraph.read.plan.sorting import sort_conditions
from omnigraph.read.result import Result
from omnigraph.read.result_graph import entity_columns
from omnigraph.read.search.deepening import Deepening
from omnigraph.read.search.searches import Searches
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

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
class Prepared:
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
        sorted_ = sort_conditions(self.checked.pattern, frozenset(), self.planner.pushdown)
        return sorted_.about(variable).pushed


def run_query(
    snapshot: Snapshot,
    tables: TableStore,
    catalog: Catalog,
    checked: CheckedQuery,
    params: Mapping[str, object],
    *,
    now: dt.datetime | None = None,
    options: ReadOptions = DEFAULT_OPTIONS,
    world: World = REAL,
    cache: ReadCache | None = None,
) -> Result:
    """Run a query. `params` are values from `bind_params`; `now` is the instant that `now()` means."""
    prepared = prepare(snapshot, tables, catalog, checked, params, now=now, options=options, world=world, cache=cache)
    try:
        return prepared.result()
    finally:
        prepared.scope.read.engine.close()


def explain_query(
    snapshot: Snapshot,
    tables: TableStore,
    catalog: Catalog,
    checked: CheckedQuery,
    params: Mapping[str, object],
    *,
    now: dt.datetime | None = None,
    options: ReadOptions = DEFAULT_OPTIONS,
    world: World = REAL,
    cache: ReadCache | None = None,
) -> Explanation:
    """How a query would run: operators in order, with estimates and the ways they would go."""
    prepared = prepare(snapshot, tables, catalog, checked, params, now=now, options=options, world=world, cache=cache)
    return explanation(prepared.scope.read, checked, prepared.steps, None)


def analyze_query(
    snapshot: Snapshot,
    tables: TableStore,
    catalog: Catalog,
    checked: CheckedQuery,
    params: Mapping[str, object],
    *,
    now: dt.datetime | None = None,
    options: ReadOptions = DEFAULT_OPTIONS,
    world: World = REAL,
    cache: ReadCache | None = None,
) -> tuple[Result, Explanation]:
    """Run a query and tell how it ran: rows and time of each operator, and the ways they went."""
    prepared = prepare(snapshot, tables, catalog, checked, params, now=now, options=options, world=world, cache=cache)
    try:
        result = prepared.result()
    finally:
        prepared.scope.read.engine.close()
    read = prepared.scope.read
    ran = read.replanned[-1] if read.replanned else prepared.steps
    return result, explanation(read, checked, ran, read.profile)


def prepare(
    snapshot: Snapshot,
    tables: TableStore,
    catalog: Catalog,
    checked: CheckedQuery,
    params: Mapping[str, object],
    *,
    now: dt.datetime | None = None,
    options: ReadOptions = DEFAULT_OPTIONS,
    world: World = REAL,
    cache: ReadCache | None = None,
) -> Prepared:
    """Plan a query without running it."""
    moment = now or dt.datetime.fromtimestamp(world.now_us() // 1_000 / 1_000, dt.UTC)
    deadline = Deadline(options, world)
    read = Read(
        snapshot=snapshot,
        store=tables,
        catalog=catalog,
        params=params,
        now=moment,
        uses_now=checked.uses_now,
        options=options,
        cache=cache or cache_of(tables),
        engine=Engine(options, deadline),
        deadline=deadline,
        profile=Profile(world),
    )
    scope = Scope(read, {each.name: each for each in visible(checked.pattern)}, Searches(read))
    planner = Planner(Estimates(snapshot, catalog), Pushdown(params, moment))
    # Sizes only guide the choices of a plan: one of the same snapshot serves again.
    key = (checked, read.values_key, moment if checked.uses_now else None, snapshot.branch, snapshot.manifest_version)
    steps = read.cache.get(
        "plan", key, lambda: planner.plan(checked.pattern, {}, needed_variables(checked)), lambda _: 10_000
    )
    return Prepared(checked, scope, planner, steps)
