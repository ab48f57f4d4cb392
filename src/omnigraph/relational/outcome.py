"""What follows the match: groups, columns, order and bounds, as one SQL query over a table of matches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from omnigraph.language.query.expressions import Aggregate, ColumnValue, EntityValue, contains

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from omnigraph.language.query.checked import CheckedQuery
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

    `identity` tells what an entity is ordered by. `ties` are columns that decide between rows which the order leaves
    equal. `required` are values a row must have. With `grouped` off, every match is a group of its own.
    """

    checked: CheckedQuery
    builder: SqlBuilder
    identity: Callable[[EntityValue], exp.Expr]
    ties: Sequence[exp.Expr] = ()
    required: Sequence[exp.Expr] = ()
    grouped: bool = True

    def query(self, bounds: Bounds) -> exp.Select:
        """The whole query. Its columns are `c0`, `c1`, … in the order of `return`."""
        columns = [_column(number) for number in range(len(self.checked.columns))]
        whole = exp.select(*columns).from_(self._rows().subquery("outcome"))
        if order := self._order():
            whole = whole.order_by(*order)
        if bounds.limit is not None:
            whole = whole.limit(bounds.limit)
        return whole.offset(bounds.offset) if bounds.offset else whole

    def _rows(self) -> exp.Select:
        """The rows of the result without their order, beside them what they are ordered by."""
        build = self._inline().build
        values = [exp.alias_(build(each.value), f"c{number}") for number, each in enumerate(self.checked.columns)]
        rows = exp.select(*values, *(exp.alias_(value, name) for name, value in self._hidden())).from_(MATCHES)
        for each in self.required:
            rows = rows.where(exp.not_(exp.Is(this=each.copy(), expression=exp.Null())))
        rows = self._aggregated(rows) if self.checked.aggregated else rows
        return rows.distinct() if self.checked.distinct else rows

    def _hidden(self) -> Iterator[tuple[str, exp.Expr]]:
        """What rows are ordered by and what is not returned. Of an entity it is the id, which tells the same apart."""
        build = self._inline().build
        for number, value in enumerate(self._ordering()):
            if isinstance(value, EntityValue):
                found = self.identity(value)
                grouped = self.checked.aggregated and self.grouped
                yield f"o{number}", exp.Min(this=found) if grouped else found
            elif not self.checked.distinct:
                yield f"o{number}", build(value)
        if not (self.checked.distinct or self.checked.aggregated):
            yield from ((f"t{number}", each.copy()) for number, each in enumerate(self.ties))

    def _ordering(self) -> list[Expression]:
        """What rows are ordered by: first what was asked for, then what tells groups apart."""
        keys = [self._source(each.value) for each in self.checked.order]
        return [*keys, *self._keys()] if self.checked.aggregated or self.checked.distinct else keys

    def _source(self, value: Expression) -> Expression:
        return self.checked.columns[value.index].value if isinstance(value, ColumnValue) else value

    def _aggregated(self, rows: exp.Select) -> exp.Select:
        build = self._inline().build
        if self.grouped and (keys := [build(each) for each in self._keys()]):
            rows = rows.group_by(*keys)
        for condition in self.checked.having:
            rows = rows.having(build(condition)) if self.grouped else rows.where(build(condition))
        return rows

    def _keys(self) -> list[Expression]:
        return [each.value for each in self.checked.columns if not contains(each.value, Aggregate)]

    def _order(self) -> list[exp.Expr]:
        falling = [each.descending for each in self.checked.order]
        keys = [
            _ordered(self._key(number, value), descending=number < len(falling) and falling[number])
            for number, value in enumerate(self._ordering())
        ]
        if not self.checked.order or self.checked.aggregated or self.checked.distinct:
            return keys
        return [*keys, *(_ordered(exp.column(f"t{number}"), descending=False) for number in range(len(self.ties)))]

    def _key(self, number: int, value: Expression) -> exp.Expr:
        if isinstance(value, EntityValue) or not self.checked.distinct:
            return exp.column(f"o{number}")
        place = next((n for n, each in enumerate(self.checked.columns) if each.value == value), None)
        return self._over_columns().build(self.checked.order[number].value) if place is None else _column(place)

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


def _column(number: int) -> exp.Expr:
    return exp.column(f"c{number}")


def _ordered(value: exp.Expr, *, descending: bool) -> exp.Expr:
    return exp.Ordered(this=value, desc=descending, nulls_first=not descending)
