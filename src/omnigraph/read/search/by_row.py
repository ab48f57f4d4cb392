"""Searches for what a row says: each row has its own query. Equal queries are made once, for all of their rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from omnigraph.language.query.expressions import Bm25, Constant, Nearest, PropertyValue, TextMatch, variables_of
from omnigraph.language.schema.catalog import PropertyType
from omnigraph.language.schema.indexes import metric_of
from omnigraph.read.search.vectors import distances_between
from omnigraph.store.arrow_columns import one_array

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.language.query.expressions import ConstantValue, Expression
    from omnigraph.read.execute.rows import Rows
    from omnigraph.read.execute.scope import Scope
    from omnigraph.read.execute.table_rows import Numbers

    Search = TextMatch | Nearest | Bm25

# So many pairs of vectors are in memory at once.
_PAIRS = 16_384


def searched_by_row(scope: Scope, search: Search, rows: Rows) -> pa.Array[Any]:
    """Truth, score or distance of each row, for the text or the vector that the row itself has."""
    if isinstance(search, Nearest) and _is_vector(search.query.type):
        return _between_vectors(scope, search, rows)
    bound = scope.read.bound(scope.variables[search.field.variable])
    keys = rows.keys[search.field.variable]
    parts: list[pa.Array[Any]] = []
    places: list[Numbers] = []
    for one, mine in _different(scope, search, rows):
        scope.read.deadline.check()
        parts.append(scope.searches.values(one, bound, keys[mine]))
        places.append(mine)
        scope.searches.forget(one)
    if not parts:
        return pa.array([], pa.bool_() if isinstance(search, TextMatch) else pa.float64())
    whole: Any = pa.concat_arrays(parts)
    found: pa.Array[Any] = whole.take(pa.array(np.argsort(np.concatenate(places), kind="stable")))
    return found


def _different(scope: Scope, search: Search, rows: Rows) -> Iterator[tuple[Search, Numbers]]:
    """Each search that some rows ask for, with its values in place of names, and those rows."""
    asked = {name: each for name, each in _asked(search).items() if variables_of(each)}
    values = scope.computed(list(asked.values()), rows)
    codes = [_codes(values.column(number)) for number in range(len(asked))]
    _, firsts, which = np.unique(np.stack(codes), axis=1, return_index=True, return_inverse=True)
    order = np.argsort(which.reshape(-1), kind="stable")
    stops = np.cumsum(np.bincount(which.reshape(-1), minlength=len(firsts)))
    for number, first in enumerate(firsts.tolist()):
        given = {
            name: Constant(cast("ConstantValue", values.column(place)[first].as_py()), each.type)
            for place, (name, each) in enumerate(asked.items())
        }
        one: Any = replace(cast("Any", search), **given)
        yield one, order[stops[number - 1] if number else 0 : stops[number]]


def _asked(search: Search) -> dict[str, Expression]:
    found: dict[str, Expression] = {"query": search.query}
    if isinstance(search, TextMatch) and search.max_edits is not None:
        found["max_edits"] = search.max_edits
    return found


def _codes(values: Any) -> Numbers:
    coded: Any = one_array(values.combine_chunks()).dictionary_encode()
    numbers: Numbers = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def _is_vector(kind: object) -> bool:
    return isinstance(kind, PropertyType) and kind.scalar == "Vector"


def _between_vectors(scope: Scope, search: Nearest, rows: Rows) -> pa.Array[Any]:
    """Both vectors are properties: distances of pairs."""
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
    numbers: pa.Array[Any] = pa.array(result, mask=np.isnan(result))
    return numbers
