"""Turns the matches of a pattern into the rows of the result: projects, groups, orders and limits them.

A plain count is summed, a small result that needs no computation is built from Python values, and everything else is
one SQL query for DuckDB. More matches than one batch are first collected in a DuckDB table, which can spill to disk.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
from sqlglot import exp

from omnigraph.expressions.dialects import each_alone, plain, weighted
from omnigraph.expressions.result_query import MATCHES, LimitOffset, ResultQuery
from omnigraph.kernels.arrays import is_distinct
from omnigraph.language.ir.expressions import (
    Aggregate,
    ColumnValue,
    EntityValue,
    Expression,
    ParameterValue,
    PropertyValue,
    Rrf,
    contains,
    walk,
)
from omnigraph.language.ir.types import STRING
from omnigraph.query.exec.bindings import TYPE_NAME, Bindings, Gathered, joined
from omnigraph.query.exec.scope import WEIGHT
from omnigraph.query.exec.small_results import FEW, is_picked, picked
from omnigraph.query.exec.top_k import fused_scores
from omnigraph.query.plan.conditions import (
    deciding,
    first_ranking,
    grouping_variables,
    is_plain_count,
    is_sure_count,
    needed_values,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.expressions.dialects import Rendering
    from omnigraph.language.ir.query import CheckedQuery
    from omnigraph.query.exec.scope import Scope


@dataclass(frozen=True)
class ResultRows:
    """Computes the result of one query from its matches."""

    scope: Scope
    checked: CheckedQuery

    def bounds(self) -> LimitOffset:
        """Limit and offset, with the parameters of the request filled in."""
        return LimitOffset(self._bound(self.checked.limit), self._bound(self.checked.offset) or 0)

    def result(self, batches: Iterator[Bindings]) -> pa.Table:
        """Compute the result: columns `c0`, `c1`, … in which an entity is still a key."""
        if is_plain_count(self.checked):
            return self._counted(batches)
        gathered = self.gathered(batches)
        if gathered.goes_on:
            return self._collected(gathered.all())
        return self._of_one(self._empty() if gathered.first is None else gathered.first)

    def gathered(self, batches: Iterator[Bindings]) -> Gathered:
        """Take the first two batches, to know whether the matches fit in one or have to be collected in DuckDB.

        A reciprocal rank fusion ranks all matches at once, so it gets them as one batch.
        """
        if is_plain_count(self.checked):
            return Gathered(None, None, batches)
        batches = self._enough(batches)
        first, second = next(batches, None), next(batches, None)
        if first is not None and second is not None and self._fusions():
            return Gathered(joined([first, second, *batches]), None, batches)
        return Gathered(first, second, batches)

    def batch(self, rows: Bindings) -> pa.Table:
        """Project some matches of a query without order and groups. The caller applies limit and offset."""
        table = self._table(rows)
        if is_picked(self.checked, alone=False):
            columns = [table.column(self._name(each.value)) for each in self.checked.columns]
            return pa.table(columns, names=[f"c{index}" for index in range(len(columns))])
        key = ("batch", self.scope.read.query_number)
        return self.scope.read.select(
            key, lambda: self._outcome(weighted_rows=False, alone=False).query(LimitOffset()), table
        )

    def _counted(self, batches: Iterator[Bindings]) -> pa.Table:
        total = sum(rows.count if rows.weight is None else int(rows.weight.sum()) for rows in batches)
        bounds = self.bounds()
        rows = [total] if bounds.limit != 0 and not bounds.offset else []
        return pa.table({f"c{index}": pa.array(rows, pa.int64()) for index in range(len(self.checked.columns))})

    def _of_one(self, rows: Bindings) -> pa.Table:
        alone = self.checked.aggregated and any(
            name in rows.keys and is_distinct(rows.keys[name])
            for name in grouping_variables(self.checked, self.scope.read.catalog)
        )
        if alone:
            rows = self._best(rows)
        if rows.count <= FEW and is_picked(self.checked, alone=alone) and (alone or rows.weight is None):
            return self._picked(rows)
        return self._selected(self._table(rows), weighted_rows=rows.weight is not None, alone=alone)

    def _picked(self, rows: Bindings) -> pa.Table:
        return picked(
            self.checked,
            self._table(rows, always_weighted=True),
            self._name,
            self._identifying,
            self._group_ties() if self.checked.aggregated else self._tie_values(),
            self._ranking(),
            self.bounds(),
        )

    def _group_ties(self) -> list[Expression]:
        """The values that identify a group, used to break ties that `order` leaves."""
        keys = [each.value for each in self.checked.columns if not isinstance(each.value, Aggregate)]
        identifying = [(isinstance(each, EntityValue) and self._identifying(each.variable)) or [each] for each in keys]
        return [value for several in identifying for value in several]

    def _name(self, expression: Expression) -> str:
        if isinstance(expression, Aggregate):
            return WEIGHT
        return _fusion_name(expression) if isinstance(expression, Rrf) else self.scope.name(expression)

    def _best(self, rows: Bindings) -> Bindings:
        """Drop groups that cannot be in the result when it is ordered by a count and limited."""
        bounds, order = self.bounds(), self.checked.order
        if bounds.limit is None or not order or self.checked.having or rows.weight is None:
            return rows
        wanted = bounds.limit + bounds.offset
        value = order[0].value
        value = self.checked.columns[value.index].value if isinstance(value, ColumnValue) else value
        if not 0 < wanted < rows.count or not is_sure_count(value, self._sure()):
            return rows
        if order[0].descending:
            return rows.where(rows.weight >= np.partition(rows.weight, -wanted)[-wanted])
        return rows.where(rows.weight <= np.partition(rows.weight, wanted - 1)[wanted - 1])

    def _sure(self) -> frozenset[str]:
        return frozenset(each.name for each in self.checked.pattern.variables)

    # -- matches as a table --------------------------------------------------------------------------------------------

    def _collected(self, batches: Iterator[Bindings]) -> pa.Table:
        """Collect matches that do not fit in one batch in a DuckDB table, which can spill to disk."""
        with self.scope.read.engine.collected(MATCHES, self.tables(batches)):
            return self._selected(None, weighted_rows=self.checked.aggregated, alone=False)

    def tables(self, batches: Iterator[Bindings]) -> Iterator[pa.Table]:
        """Matches as Arrow tables with one schema."""
        for rows in batches:
            yield self._table(rows, always_weighted=True)

    def text_over_collected(self) -> str:
        """The SQL that computes the result from the collected matches."""
        key, weighted_rows = ("outcome", self.scope.read.query_number, "collected"), self.checked.aggregated
        return self.scope.read.text(key, lambda: self._query(weighted_rows=weighted_rows, alone=False))

    def _table(self, rows: Bindings, *, always_weighted: bool = False) -> pa.Table:
        """The columns that the result is computed from, one row for each match."""
        if not self.checked.aggregated:
            rows = rows if self.checked.distinct else rows.repeated()
        table = self.scope.table(self._expressions(), rows)
        for fusion in self._fusions():
            scores = fused_scores(self.scope, fusion, rows, self._rank_limit())
            table = table.append_column(_fusion_name(fusion), scores)
        if not self.checked.aggregated or (rows.weight is None and not always_weighted):
            return table
        weight = pa.array(rows.weight) if rows.weight is not None else pa.repeat(1, rows.count)
        return table.append_column(WEIGHT, weight)

    def _empty(self) -> Bindings:
        return Bindings(0, {name: np.zeros(0, np.int64) for name in self.scope.variables})

    def _enough(self, batches: Iterator[Bindings]) -> Iterator[Bindings]:
        """Stop matching when an unordered result has enough rows for its limit and offset."""
        bounds = self.bounds()
        ordered = self.checked.order or self.checked.aggregated or self.checked.distinct
        wanted = None if ordered or bounds.limit is None else bounds.limit + bounds.offset
        for rows in batches:
            yield rows
            if wanted is not None:
                wanted -= rows.count
                if wanted <= 0:
                    return

    def _expressions(self) -> list[Expression]:
        return [*needed_values(self.checked), *self._tie_values(), *self._entity_ids()]

    def _entity_ids(self) -> list[Expression]:
        """The columns by which whole entities are ordered."""
        if not (self.checked.order or self.checked.aggregated or self.checked.distinct):
            return []
        values = [*(each.value for each in self.checked.columns), *(each.value for each in self.checked.order)]
        entities = [each for each in values if isinstance(each, EntityValue)]
        return [value for each in entities for value in self._identifying(each.variable)]

    def _tie_values(self) -> list[Expression]:
        return [value for each in deciding(self.checked) for value in self._identifying(each.name)]

    def _identifying(self, name: str) -> list[Expression]:
        """The expressions that identify an entity: its id, and its type when the variable has several."""
        variable = self.scope.variables[name]
        if variable.kind == "path":
            return []
        types: list[Expression] = [PropertyValue(name, TYPE_NAME, STRING)] if len(variable.types) > 1 else []
        return [PropertyValue(name, "id", STRING), *types]

    def _identity(self, entity: EntityValue) -> exp.Expr:
        columns = [self.scope.column(each) for each in self._identifying(entity.variable)] or [
            self.scope.column(entity)
        ]
        return (
            columns[0]
            if len(columns) == 1
            else exp.DPipe(
                this=exp.DPipe(this=columns[0], expression=exp.func("chr", exp.Literal.number(0))),
                expression=columns[1],
            )
        )

    def _fusions(self) -> list[Rrf]:
        values = [*(each.value for each in self.checked.columns), *(each.value for each in self.checked.order)]
        return list(dict.fromkeys(each for value in values for each in walk(value) if isinstance(each, Rrf)))

    def _rank_limit(self) -> int:
        bounds = self.bounds()
        return (bounds.limit or 0) + bounds.offset

    # -- the query -----------------------------------------------------------------------------------------------------

    def _selected(self, matches: pa.Table | None, *, weighted_rows: bool, alone: bool) -> pa.Table:
        key, limit = ("outcome", self.scope.read.query_number, weighted_rows, alone), self.bounds().limit
        sizes = [1] if not self._keys() else [] if matches is None else [matches.num_rows]
        most = min([*sizes, *([] if limit is None else [limit])], default=None)
        return self.scope.read.select(
            key, lambda: self._query(weighted_rows=weighted_rows, alone=alone), matches, most=most
        )

    def _keys(self) -> bool:
        """Whether the result can have more than one row: false for an aggregation without group keys."""
        return not self.checked.aggregated or any(not contains(each.value, Aggregate) for each in self.checked.columns)

    def _query(self, *, weighted_rows: bool, alone: bool) -> exp.Select:
        return self._outcome(weighted_rows=weighted_rows, alone=alone).query(self.bounds())

    def _outcome(self, *, weighted_rows: bool, alone: bool) -> ResultQuery:
        """The SQL of the result. `alone`: every match is a group by itself, so no GROUP BY is needed."""
        builder = self.scope.builder(self._aggregates(weighted_rows=weighted_rows, alone=alone))
        return ResultQuery(
            self.checked,
            replace(builder, leaf=self._leaf),
            self._identity,
            ties=[self.scope.column(each) for each in self._tie_values()],
            required=[self._leaf(each) for each in self._ranking()],
            grouped=not alone,
        )

    def _aggregates(self, *, weighted_rows: bool, alone: bool) -> Rendering:
        weight = exp.column(WEIGHT, quoted=True) if weighted_rows else exp.Literal.number(1)
        rendered = each_alone(weight) if alone else weighted(weight) if weighted_rows else plain
        sure = self._sure()

        def render(aggregate: Aggregate, argument: exp.Expr) -> exp.Expr:
            # A value that is never null need not be read to be counted.
            is_sure = not aggregate.distinct and is_sure_count(aggregate, sure)
            return rendered(aggregate, exp.Literal.number(1) if is_sure else argument)

        return render

    def _leaf(self, expression: Expression) -> exp.Expr:
        if isinstance(expression, Rrf):
            return exp.column(_fusion_name(expression), quoted=True)
        return self.scope.column(expression)

    def _ranking(self) -> list[Expression]:
        """The ranking that the result is ordered by first. Rows that it does not rank are not part of the result."""
        found = first_ranking(self.checked)
        return [] if found is None or self.checked.aggregated or self.checked.distinct else [found]

    def _bound(self, bound: int | ParameterValue | None) -> int | None:
        if isinstance(bound, ParameterValue):
            return cast("int", self.scope.read.params[bound.name])
        return bound


def _fusion_name(fusion: Rrf) -> str:
    return f"#rrf {hash(fusion)}"
