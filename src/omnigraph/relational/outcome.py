"""What follows the match: groups, columns, order and bounds, as one SQL query over a table of matches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from omnigraph.language.query.expressions import Aggregate, ColumnValue, contains

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.language.query.checked import CheckedQuery, OrderKey
    from omnigraph.language.query.expressions import Expression
    from omnigraph.relational.expressions import SqlBuilder

MATCHES = "matches"


@dataclass(frozen=True)
class Bounds:
    """How many rows to leave out at the beginning, and how many to give."""

    limit: int | None = None
    offset: int = 0


@dataclass(frozen=True)
class Outcome:
    """Builds the query that makes a result from matches.

    `ties` are columns that decide between rows which the order leaves equal. `required` are values that a row must have.
    With `grouped` off, every match is a group of its own.
    """

    checked: CheckedQuery
    builder: SqlBuilder
    ties: Sequence[exp.Expr] = ()
    required: Sequence[exp.Expr] = ()
    grouped: bool = True

    def query(self, bounds: Bounds) -> exp.Select:
        """The whole query. Its columns are `c0`, `c1`, … in the order of `return`."""
        columns = [_column(number) for number in range(len(self.checked.columns))]
        whole = exp.select(*columns).from_(self._rows().subquery("outcome")).order_by(*self._order())
        if bounds.limit is not None:
            whole = whole.limit(bounds.limit)
        return whole.offset(bounds.offset) if bounds.offset else whole

    def _rows(self) -> exp.Select:
        """The rows of the result without their order, beside them what they are ordered by."""
        build = self._inline().build
        values = [exp.alias_(build(each.value), f"c{number}") for number, each in enumerate(self.checked.columns)]
        hidden: list[exp.Expr] = []
        if not self.checked.distinct:
            keys = enumerate(self.checked.order)
            hidden = [exp.alias_(build(key.value), f"o{number}") for number, key in keys if not _is_column(key)]
            hidden += [exp.alias_(each.copy(), f"t{number}") for number, each in enumerate(self._ties())]
        rows = exp.select(*values, *hidden).from_(MATCHES)
        rows = rows.where(*(exp.not_(exp.Is(this=each.copy(), expression=exp.Null())) for each in self.required))
        rows = self._aggregated(rows) if self.checked.aggregated else rows
        return rows.distinct() if self.checked.distinct else rows

    def _aggregated(self, rows: exp.Select) -> exp.Select:
        build = self._inline().build
        having = [build(each) for each in self.checked.having]
        if not self.grouped:
            return rows.where(*having)
        return rows.group_by(*(build(each) for each in self._keys())).having(*having)

    def _keys(self) -> list[Expression]:
        return [each.value for each in self.checked.columns if not contains(each.value, Aggregate)]

    def _ties(self) -> Sequence[exp.Expr]:
        return () if self.checked.aggregated else self.ties

    def _order(self) -> list[exp.Expr]:
        keys = [self._key(number, key) for number, key in enumerate(self.checked.order)]
        if self.checked.aggregated or self.checked.distinct:
            # Equal keys: the group columns tell the rows apart, whichever way they were found.
            own = [n for n, each in enumerate(self.checked.columns) if not contains(each.value, Aggregate)]
            return [*keys, *(_ordered(_column(number), descending=False) for number in own)]
        if not keys:
            return []
        return [*keys, *(_ordered(exp.column(f"t{number}"), descending=False) for number in range(len(self._ties())))]

    def _key(self, number: int, key: OrderKey) -> exp.Expr:
        if isinstance(key.value, ColumnValue):
            return _ordered(_column(key.value.index), descending=key.descending)
        if self.checked.distinct:
            return _ordered(self._over_columns().build(key.value), descending=key.descending)
        return _ordered(exp.column(f"o{number}"), descending=key.descending)

    def _inline(self) -> SqlBuilder:
        """Aliases stand for what they were given to."""

        def leaf(expression: Expression) -> exp.Expr:
            if isinstance(expression, ColumnValue):
                return self._inline().build(self.checked.columns[expression.index].value)
            return self.builder.leaf(expression)

        return replace(self.builder, leaf=leaf)

    def _over_columns(self) -> SqlBuilder:
        def leaf(expression: Expression) -> exp.Expr:
            return _column(expression.index) if isinstance(expression, ColumnValue) else self.builder.leaf(expression)

        return replace(self.builder, leaf=leaf)


def _is_column(key: OrderKey) -> bool:
    return isinstance(key.value, ColumnValue)


def _column(number: int) -> exp.Expr:
    return exp.column(f"c{number}")


def _ordered(value: exp.Expr, *, descending: bool) -> exp.Expr:
    return exp.Ordered(this=value, desc=descending, nulls_first=not descending)
