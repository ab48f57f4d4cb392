"""Values of expressions over rows of a match: which columns they need, where those come from, and what DuckDB says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from omnigraph.language.query.expressions import (
    Bm25,
    EntityValue,
    Expression,
    Nearest,
    PropertyValue,
    Rrf,
    TextMatch,
    children,
    is_given,
)
from omnigraph.read.search.by_row import searched_by_row
from omnigraph.read.traversal.found_paths import FoundPaths
from omnigraph.relational.engine import for_duckdb
from omnigraph.relational.expressions import SqlBuilder
from omnigraph.relational.outcome import MATCHES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from omnigraph.language.query.checked import Variable
    from omnigraph.read.execute.read import Read
    from omnigraph.read.execute.rows import Rows
    from omnigraph.read.search.searches import Searches
    from omnigraph.relational.aggregates import Rendering

Search = TextMatch | Nearest | Bm25
WEIGHT = "#weight"
# A table needs a column even when no expression asks for one.
_NO_COLUMN = "#none"


@dataclass(frozen=True)
class Scope:
    """The variables in sight, and what search and paths have found for them."""

    read: Read
    variables: dict[str, Variable]
    searches: Searches
    paths: dict[str, FoundPaths] = field(default_factory=dict)

    def inside(self, variables: Iterable[Variable]) -> Scope:
        """The scope of an inner pattern."""
        found = {**self.variables, **{each.name: each for each in variables}}
        return Scope(self.read, found, self.searches, self.paths)

    def builder(self, aggregate: Rendering | None = None) -> SqlBuilder:
        """Builds SQL over the columns of `table`."""
        made = SqlBuilder(self.read.params, self.read.now, self.column)
        return made if aggregate is None else SqlBuilder(self.read.params, self.read.now, self.column, aggregate)

    def column(self, expression: Expression) -> exp.Expr:
        """The column that holds a leaf."""
        return exp.column(self.name(expression), quoted=True)

    def table(self, expressions: Iterable[Expression], rows: Rows) -> pa.Table:
        """The columns that the expressions need, one row for each match."""
        columns: dict[str, Any] = {_NO_COLUMN: pa.nulls(rows.count)}
        wanted = list(dict.fromkeys(leaf for each in expressions for leaf in leaves(each)))
        for variable in dict.fromkeys(each.variable for each in wanted if isinstance(each, PropertyValue)):
            names = [each.property for each in wanted if isinstance(each, PropertyValue) and each.variable == variable]
            for name, values in self.values(variable, names, rows.keys[variable]).items():
                columns[f"{variable}.{name}"] = for_duckdb(values)
        for leaf in wanted:
            if isinstance(leaf, EntityValue):
                columns[leaf.variable] = _nullable(rows.keys[leaf.variable])
            elif isinstance(leaf, Search):
                columns[self.name(leaf)] = self.searched(leaf, rows)
        if len(columns) > 1:
            del columns[_NO_COLUMN]
        return pa.table(columns)

    def values(self, variable: str, names: Sequence[str], keys: NDArray[np.int64]) -> dict[str, pa.Array[Any]]:
        """Properties of a variable."""
        if self.variables[variable].kind == "path":
            return self.paths.get(variable, FoundPaths()).values(names, keys)
        return self.read.bound(self.variables[variable]).values(names, keys)

    def keeps(self, conditions: Sequence[Expression], rows: Rows) -> NDArray[np.bool_]:
        """For each row whether all conditions are true."""
        key = ("keep", tuple(conditions))
        answer = self.read.select(
            key, lambda: self._condition(conditions), self.table(conditions, rows), most=rows.count
        )
        mask: NDArray[np.bool_] = answer.column("keep").to_numpy().astype(np.bool_)
        return mask

    def _condition(self, conditions: Sequence[Expression]) -> exp.Select:
        builder = self.builder()
        whole = exp.and_(*(builder.build(each) for each in conditions))
        return exp.select(exp.alias_(exp.func("coalesce", whole, exp.Boolean(this=False)), "keep")).from_(MATCHES)

    def searched(self, leaf: Search, rows: Rows) -> pa.Array[Any]:
        """Truth, score or distance at each row."""
        if not is_given(leaf):
            return searched_by_row(self, leaf, rows)
        bound = self.read.bound(self.variables[leaf.field.variable])
        return self.searches.values(leaf, bound, rows.keys[leaf.field.variable])

    def ranked(self, leaf: Nearest | Bm25, rows: Rows) -> pa.Array[Any]:
        """Like `searched`, for an order of the best alone."""
        if not is_given(leaf):
            return searched_by_row(self, leaf, rows)
        bound = self.read.bound(self.variables[leaf.field.variable])
        return self.searches.ranks(leaf, bound, rows.keys[leaf.field.variable])

    def computed(self, expressions: Sequence[Expression], rows: Rows) -> pa.Table:
        """The values of some expressions, a column for each."""
        key, builder = ("computed", tuple(expressions)), self.builder()
        columns = [exp.alias_(builder.build(each), f"v{number}") for number, each in enumerate(expressions)]
        return self.read.select(key, lambda: exp.select(*columns).from_(MATCHES), self.table(expressions, rows))

    def name(self, expression: Expression) -> str:
        """What the column of a leaf is called."""
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
    """What an expression needs of the rows: properties, entities, and searches as a whole."""
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
