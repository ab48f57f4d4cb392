"""Builds the SQL that turns a table of matches into the result: projection, grouping, order, limit and offset.

Rows that the order leaves equal are ordered by further columns, so that the result is deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from omnigraph.language.ir.expressions import Aggregate, ColumnValue, EntityValue, contains

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from omnigraph.expressions.sql import SqlBuilder
    from omnigraph.language.ir.expressions import Expression
    from omnigraph.language.ir.query import CheckedQuery

MATCHES = "matches"


@dataclass(frozen=True)
class LimitOffset:
    """The limit and offset of a result; no limit when None."""

    limit: int | None = None
    offset: int = 0


@dataclass(frozen=True)
class ResultQuery:
    """Builds the query that computes a result from matches.

    `identity` is the expression that an entity is ordered by. `ties` are columns that order the rows which `order`
    leaves equal. `required` are expressions that must not be null. Without `grouped`, every match is a group by itself.
    """

    checked: CheckedQuery
    builder: SqlBuilder
    identity: Callable[[EntityValue], exp.Expr]
    ties: Sequence[exp.Expr] = ()
    required: Sequence[exp.Expr] = ()
    grouped: bool = True

    def query(self, bounds: LimitOffset) -> exp.Select:
        """The whole query. Its columns are `c0`, `c1`, … in the order of `return`."""
        columns = [_column(number) for number in range(len(self.checked.columns))]
        # The tree is not shared with anyone, so no step needs to copy it.
        whole = exp.select(*columns, copy=False).from_(self._rows().subquery("outcome", copy=False), copy=False)
        if order := self._order():
            whole = whole.order_by(*order, copy=False)
        if bounds.limit is not None:
            whole = whole.limit(bounds.limit, copy=False)
        return whole.offset(bounds.offset, copy=False) if bounds.offset else whole

    def _rows(self) -> exp.Select:
        """The unordered rows of the result, with the hidden columns that they are ordered by."""
        build = self._inline().build
        values = [(f"c{number}", build(each.value)) for number, each in enumerate(self.checked.columns)]
        named = [exp.alias_(value, name, copy=False) for name, value in (*values, *self._hidden())]
        rows = exp.select(*named, copy=False).from_(MATCHES, copy=False)
        for each in self.required:
            rows = rows.where(exp.not_(exp.Is(this=each.copy(), expression=exp.Null())), copy=False)
        rows = self._aggregated(rows) if self.checked.aggregated else rows
        return rows.distinct(copy=False) if self.checked.distinct else rows

    def _hidden(self) -> Iterator[tuple[str, exp.Expr]]:
        """The sort keys that are not columns of the result. That of an entity is its id, which identifies it."""
        build = self._inline().build
        for number, (value, _) in enumerate(self._ordering()):
            if isinstance(value, EntityValue):
                found = self.identity(value)
                grouped = self.checked.aggregated and self.grouped
                yield f"o{number}", exp.Min(this=found) if grouped else found
            elif not self.checked.distinct and self._column_index(value) is None:
                yield f"o{number}", build(value)
        if not (self.checked.distinct or self.checked.aggregated):
            yield from ((f"t{number}", each.copy()) for number, each in enumerate(self.ties))

    def _ordering(self) -> list[tuple[Expression, bool]]:
        """The sort keys, and whether descending: those of `order` first, then the keys that identify groups."""
        descending = {self._source(each.value): each.descending for each in reversed(self.checked.order)}
        keys = [
            (value, descending[value])
            for value in dict.fromkeys(self._source(each.value) for each in self.checked.order)
        ]
        if not (self.checked.aggregated or self.checked.distinct):
            return keys
        return [*keys, *((each, False) for each in self._keys() if each not in descending)]

    def _column_index(self, value: Expression) -> int | None:
        """The index of the result column that has this value."""
        return next((number for number, each in enumerate(self.checked.columns) if each.value == value), None)

    def _source(self, value: Expression) -> Expression:
        return self.checked.columns[value.index].value if isinstance(value, ColumnValue) else value

    def _aggregated(self, rows: exp.Select) -> exp.Select:
        build = self._inline().build
        if self.grouped and (keys := [build(each) for each in self._keys()]):
            rows = rows.group_by(*keys, copy=False)
        for condition in self.checked.having:
            predicate = build(condition)
            rows = rows.having(predicate, copy=False) if self.grouped else rows.where(predicate, copy=False)
        return rows

    def _keys(self) -> list[Expression]:
        return [each.value for each in self.checked.columns if not contains(each.value, Aggregate)]

    def _order(self) -> list[exp.Expr]:
        keys = [
            _ordered(self._key(number, value), descending=descending)
            for number, (value, descending) in enumerate(self._ordering())
        ]
        if not self.checked.order or self.checked.aggregated or self.checked.distinct:
            return keys
        return [*keys, *(_ordered(exp.column(f"t{number}"), descending=False) for number in range(len(self.ties)))]

    def _key(self, number: int, value: Expression) -> exp.Expr:
        if isinstance(value, EntityValue):
            return exp.column(f"o{number}")
        if (index := self._column_index(value)) is not None:
            return _column(index)
        return self._over_columns().build(value) if self.checked.distinct else exp.column(f"o{number}")

    def _inline(self) -> SqlBuilder:
        """A builder that replaces each alias by the expression it stands for."""

        def leaf(expression: Expression) -> exp.Expr:
            if isinstance(expression, ColumnValue):
                return self._inline().build(self.checked.columns[expression.index].value)
            return self.builder.leaf(expression)

        return replace(self.builder, leaf=leaf)

    def _over_columns(self) -> SqlBuilder:
        def leaf(expression: Expression) -> exp.Expr:
            return _column(expression.index) if isinstance(expression, ColumnValue) else self.builder.leaf(expression)

        return replace(self.builder, leaf=leaf)


def _column(number: int) -> exp.Expr:
    return exp.column(f"c{number}")


def _ordered(value: exp.Expr, *, descending: bool) -> exp.Expr:
    return exp.Ordered(this=value, desc=descending, nulls_first=not descending)
