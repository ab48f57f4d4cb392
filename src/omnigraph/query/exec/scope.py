"""Evaluates expressions over the rows of a match: fetches the columns they need and lets DuckDB compute them.

A search whose query is a value of the row itself is run once for each distinct query, for all rows that have it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
from sqlglot import exp

from omnigraph.catalog.catalog import PropertyType
from omnigraph.catalog.indexes import metric_of
from omnigraph.expressions.result_query import MATCHES
from omnigraph.expressions.sql import SqlBuilder
from omnigraph.kernels.arrays import one_array
from omnigraph.kernels.duckdb_pool import to_duckdb
from omnigraph.language.ir.expressions import (
    Bm25,
    Constant,
    EntityValue,
    Expression,
    Nearest,
    PropertyValue,
    Rrf,
    TextMatch,
    children,
    is_given,
    variables_of,
)
from omnigraph.query.exec.bindings import FoundPaths
from omnigraph.query.search.vectors import distances_between

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from omnigraph.expressions.dialects import Rendering
    from omnigraph.language.ir.expressions import ConstantValue
    from omnigraph.language.ir.query import Variable
    from omnigraph.query.columns.table_columns import Int64Array
    from omnigraph.query.exec.bindings import Bindings
    from omnigraph.query.exec.context import QueryContext
    from omnigraph.query.exec.searches import Searches


# Vector pairs that are compared at once; bounds memory.
_PAIRS = 16_384


def searched_by_row(scope: Scope, search: Search, rows: Bindings) -> pa.Array[Any]:
    """Truth, score or distance of each row, for a search whose text or vector comes from the row itself."""
    if isinstance(search, Nearest) and _is_vector(search.query.type):
        return _between_vectors(scope, search, rows)
    bound = scope.read.bound(scope.variables[search.field.variable])
    keys = rows.keys[search.field.variable]
    results: list[pa.Array[Any]] = []
    row_numbers: list[Int64Array] = []
    for one, mine in _different(scope, search, rows):
        scope.read.deadline.check()
        results.append(scope.searches.values(one, bound, keys[mine]))
        row_numbers.append(mine)
        scope.searches.forget(one)
    if not results:
        return pa.array([], pa.bool_() if isinstance(search, TextMatch) else pa.float64())
    whole: Any = pa.concat_arrays(results)
    found: pa.Array[Any] = whole.take(pa.array(np.argsort(np.concatenate(row_numbers), kind="stable")))
    return found


def _different(scope: Scope, search: Search, rows: Bindings) -> Iterator[tuple[Search, Int64Array]]:
    """Each distinct search among the rows, with constants for its arguments, and the numbers of its rows."""
    arguments = {name: each for name, each in _row_arguments(search).items() if variables_of(each)}
    values = scope.computed(list(arguments.values()), rows)
    codes = [_codes(values.column(number)) for number in range(len(arguments))]
    _, firsts, which = np.unique(np.stack(codes), axis=1, return_index=True, return_inverse=True)
    order = np.argsort(which.reshape(-1), kind="stable")
    stops = np.cumsum(np.bincount(which.reshape(-1), minlength=len(firsts)))
    for number, first in enumerate(firsts.tolist()):
        given = {
            name: Constant(cast("ConstantValue", values.column(index)[first].as_py()), each.type)
            for index, (name, each) in enumerate(arguments.items())
        }
        one: Any = replace(cast("Any", search), **given)
        yield one, order[stops[number - 1] if number else 0 : stops[number]]


def _row_arguments(search: Search) -> dict[str, Expression]:
    found: dict[str, Expression] = {"query": search.query}
    if isinstance(search, TextMatch) and search.max_edits is not None:
        found["max_edits"] = search.max_edits
    return found


def _codes(values: Any) -> Int64Array:
    coded: Any = one_array(values.combine_chunks()).dictionary_encode()
    encoded: Int64Array = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return encoded


def _is_vector(kind: object) -> bool:
    return isinstance(kind, PropertyType) and kind.scalar == "Vector"


def _between_vectors(scope: Scope, search: Nearest, rows: Bindings) -> pa.Array[Any]:
    """Distances between two vector properties of each row."""
    other = cast("PropertyValue", search.query)
    metric = metric_of(scope.searches.declared(search, scope.read.bound(scope.variables[search.field.variable])))
    result = np.full(rows.count, np.nan)
    for first in range(0, rows.count, _PAIRS):
        scope.read.deadline.check()
        some = rows.slice(first, first + _PAIRS)
        left, right = (
            scope.values(each.variable, [each.property], some.keys[each.variable])[each.property]
            for each in (search.field, other)
        )
        result[first : first + some.count] = distances_between(left, right, metric)
    found: pa.Array[Any] = pa.array(result, mask=np.isnan(result))
    return found


Search = TextMatch | Nearest | Bm25
WEIGHT = "#weight"
# A table needs a column even when no expression reads one.
_NO_COLUMN = "#none"


@dataclass(frozen=True)
class Scope:
    """The variables that expressions can name, the searches on them, and the paths that were found."""

    read: QueryContext
    variables: dict[str, Variable]
    searches: Searches
    paths: dict[str, FoundPaths] = field(default_factory=dict)

    def inside(self, variables: Iterable[Variable]) -> Scope:
        """The scope of a nested pattern: these variables and its own."""
        found = {**self.variables, **{each.name: each for each in variables}}
        return Scope(self.read, found, self.searches, self.paths)

    def builder(self, aggregate: Rendering | None = None) -> SqlBuilder:
        """A builder of SQL over the columns of `table`."""
        made = SqlBuilder(self.read.params, self.read.now, self.column)
        return made if aggregate is None else SqlBuilder(self.read.params, self.read.now, self.column, aggregate)

    def column(self, expression: Expression) -> exp.Expr:
        """The column that holds the value of a leaf."""
        return exp.column(self.name(expression), quoted=True)

    def table(self, expressions: Iterable[Expression], rows: Bindings) -> pa.Table:
        """The columns that the expressions read, one row for each match."""
        columns: dict[str, Any] = {_NO_COLUMN: pa.nulls(rows.count)}
        wanted = list(dict.fromkeys(leaf for each in expressions for leaf in leaves(each)))
        for variable in dict.fromkeys(each.variable for each in wanted if isinstance(each, PropertyValue)):
            names = [each.property for each in wanted if isinstance(each, PropertyValue) and each.variable == variable]
            for name, values in self.values(variable, names, rows.keys[variable]).items():
                columns[f"{variable}.{name}"] = to_duckdb(values)
        for leaf in wanted:
            if isinstance(leaf, EntityValue):
                columns[leaf.variable] = _nullable(rows.keys[leaf.variable])
            elif isinstance(leaf, Search):
                columns[self.name(leaf)] = self.searched(leaf, rows)
        if len(columns) > 1:
            del columns[_NO_COLUMN]
        return pa.table(columns)

    def values(self, variable: str, names: Sequence[str], keys: NDArray[np.int64]) -> dict[str, pa.Array[Any]]:
        """Property values of a variable at some keys."""
        if self.variables[variable].kind == "path":
            return self.paths.get(variable, FoundPaths()).values(names, keys)
        return self.read.bound(self.variables[variable]).values(names, keys)

    def satisfies(self, conditions: Sequence[Expression], rows: Bindings) -> NDArray[np.bool_]:
        """For each row whether all conditions are true; null counts as false."""
        key = ("satisfied", tuple(conditions))
        answer = self.read.select(
            key, lambda: self._condition(conditions), self.table(conditions, rows), most=rows.count
        )
        mask: NDArray[np.bool_] = answer.column("satisfied").to_numpy().astype(np.bool_)
        return mask

    def _condition(self, conditions: Sequence[Expression]) -> exp.Select:
        builder = self.builder()
        whole = exp.and_(*(builder.build(each) for each in conditions))
        return exp.select(exp.alias_(exp.func("coalesce", whole, exp.Boolean(this=False)), "satisfied")).from_(MATCHES)

    def searched(self, leaf: Search, rows: Bindings) -> pa.Array[Any]:
        """Truth, score or distance of a search at each row."""
        if not is_given(leaf):
            return searched_by_row(self, leaf, rows)
        bound = self.read.bound(self.variables[leaf.field.variable])
        return self.searches.values(leaf, bound, rows.keys[leaf.field.variable])

    def ranked(self, leaf: Nearest | Bm25, rows: Bindings) -> pa.Array[Any]:
        """Like `searched`, but rows outside the best that a ranking has found may be null."""
        if not is_given(leaf):
            return searched_by_row(self, leaf, rows)
        bound = self.read.bound(self.variables[leaf.field.variable])
        return self.searches.ranks(leaf, bound, rows.keys[leaf.field.variable])

    def computed(self, expressions: Sequence[Expression], rows: Bindings) -> pa.Table:
        """The values of the expressions, as columns `v0`, `v1`, …"""
        key, builder = ("computed", tuple(expressions)), self.builder()
        columns = [exp.alias_(builder.build(each), f"v{number}") for number, each in enumerate(expressions)]
        return self.read.select(key, lambda: exp.select(*columns).from_(MATCHES), self.table(expressions, rows))

    def name(self, expression: Expression) -> str:
        """The name of the column that holds a leaf."""
        match expression:
            case PropertyValue(variable, name):
                return f"{variable}.{name}"
            case EntityValue(variable):
                return variable
            case TextMatch() | Nearest() | Bm25():
                return f"#search {hash(expression)}"
            case _:
                raise AssertionError(f"{type(expression).__name__} has no column")


def leaves(expression: Expression) -> Iterator[PropertyValue | EntityValue | Search]:
    """The leaves of an expression that are columns of the match: properties, entities, and whole searches."""
    if isinstance(expression, PropertyValue | EntityValue | TextMatch | Nearest | Bm25):
        yield expression
    elif isinstance(expression, Rrf):
        yield from (expression.first, expression.second)
    else:
        for child in children(expression):
            yield from leaves(child)


def _nullable(keys: NDArray[np.int64]) -> pa.Array[Any]:
    found: pa.Array[Any] = pa.array(keys, mask=keys < 0)
    return found
