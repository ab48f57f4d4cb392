"""Checks search functions and aggregates.

Search: the fields and queries of search, match_text, fuzzy, nearest, bm25 and rrf. Aggregates: the arguments of count,
sum, avg, min and max, and which other columns may occur beside them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from omnigraph.catalog.catalog import PropertyType
from omnigraph.language.gq.check.constants import convert
from omnigraph.language.gq.syntax import expressions as written
from omnigraph.language.ir import expressions as made
from omnigraph.language.ir.types import (
    F64,
    I64,
    EntityType,
    NullType,
    ValueType,
    is_blob,
    is_integer,
    is_number,
    is_scalar,
    is_text,
    nullable,
)

if TYPE_CHECKING:
    from omnigraph.language.core.diagnostics import Span
    from omnigraph.language.gq.check.environment import Env
    from omnigraph.language.ir.expressions import AggregateFunction, Expression

FUNCTIONS = ("count", "sum", "avg", "min", "max")
_CLAUSES = {"return", "having", "order"}


def aggregate(env: Env, node: written.Call) -> Expression | None:
    """Check an aggregate over one argument."""
    if len(node.arguments) != 1:
        env.fail(node.span, "T8", f"{node.function}() takes one argument, not {len(node.arguments)}")
        return None
    if env.clause not in _CLAUSES:
        env.fail(node.span, "T9", f"{node.function}() belongs in return, having or order")
        return None
    argument = env.check(node.arguments[0])
    if argument is None or not _accepts(env, node, argument):
        return None
    function = cast("AggregateFunction", node.function)
    return made.Aggregate(function, argument, node.distinct, _result(function, argument.type))


def _accepts(env: Env, node: written.Call, argument: Expression) -> bool:
    place = node.arguments[0].span
    if made.contains(argument, made.Aggregate) or _is_aggregated_column(env, argument):
        env.fail(place, "T8", f"{node.function}() cannot be taken of another aggregate")
    elif is_blob(argument.type):
        env.fail(place, "T24", f"a Blob cannot be read as a value, so {node.function}() cannot take one")
    elif isinstance(argument.type, NullType) or not _fits(node.function, argument.type):
        env.fail(place, "T8", f"{node.function}() cannot take {argument.type}: it takes {_TAKES[node.function]}")
    else:
        return True
    return False


def _is_aggregated_column(env: Env, argument: Expression) -> bool:
    """Whether the argument uses an alias of `return`, which is already computed per group."""
    return env.clause != "return" and made.contains(argument, made.ColumnValue)


_TAKES = {
    "count": "any value",
    "sum": "numbers",
    "avg": "numbers",
    "min": "numbers, Strings, Dates and DateTimes",
    "max": "numbers, Strings, Dates and DateTimes",
}


def _fits(function: str, argument: ValueType) -> bool:
    if function == "count":
        return True
    if function in {"sum", "avg"}:
        return is_number(argument)
    return is_scalar(argument) and cast("PropertyType", argument).scalar != "Bool"


def _result(function: AggregateFunction, argument: ValueType) -> PropertyType:
    if function == "count":
        return I64
    if function in {"sum", "avg"}:
        return nullable(F64)
    return replace(cast("PropertyType", argument), nullable=True, enum_values=None)


def refuse_ungrouped(env: Env, span: Span, value: Expression, keys: frozenset[Expression]) -> bool:
    """Report a value that can differ within a group: it is neither aggregated nor a grouping key."""
    if (loose := _ungrouped(value, keys)) is None:
        return False
    env.fail(
        span,
        "T9",
        f"{loose} is neither aggregated nor a column of return: with aggregates, every other value must be one of the"
        " columns that make the groups",
    )
    return True


def _ungrouped(value: Expression, keys: frozenset[Expression]) -> str | None:
    if value in keys or isinstance(value, made.Aggregate | made.ColumnValue):
        return None
    if isinstance(value, made.PropertyValue):
        return f"${value.variable}.{value.property}"
    if isinstance(value, made.EntityValue):
        return f"${value.variable}"
    return next((loose for child in made.children(value) if (loose := _ungrouped(child, keys))), None)


_CODES = {"search": "T19", "fuzzy": "T19", "match_text": "T20", "bm25": "T20", "nearest": "T15", "rrf": "T21"}


def text_match(env: Env, node: written.Call) -> Expression | None:
    """search(field, query), match_text(field, query), fuzzy(field, query, max_edits?)."""
    most = 3 if node.function == "fuzzy" else 2
    if not _usable(env, node, range(2, most + 1)):
        return None
    field, query = _text_field(env, node), _text_query(env, node)
    edits = _max_edits(env, node) if len(node.arguments) == 3 else None
    if field is None or query is None or (len(node.arguments) == 3 and edits is None):
        return None
    return made.TextMatch(cast("Any", node.function), field, query, edits)


def bm25(env: Env, node: written.Call) -> made.Bm25 | None:
    """bm25(field, query)."""
    if not _usable(env, node, range(2, 3)):
        return None
    field, query = _text_field(env, node), _text_query(env, node)
    return made.Bm25(field, query) if field is not None and query is not None else None


def nearest(env: Env, node: written.Call) -> made.Nearest | None:
    """nearest(field, vector or text)."""
    if not _usable(env, node, range(2, 3)):
        return None
    field, query = _field(env, node), env.check(node.arguments[1])
    if field is None or query is None:
        return None
    if field.type.scalar != "Vector":
        env.fail(node.arguments[0].span, "T15", f"nearest() needs a Vector property, not {field.type}")
        return None
    vector = _vector_query(env, node.arguments[1], query, field.type)
    return made.Nearest(field, vector) if vector is not None else None


def rrf(env: Env, node: written.Call) -> Expression | None:
    """rrf(ranking, ranking, k?)."""
    if not _usable(env, node, range(2, 4)):
        return None
    if env.clause not in {"return", "order"}:
        env.fail(node.span, "T21", "rrf() ranks the whole result: it belongs in return or order")
        return None
    first, second = (_ranking(env, each) for each in node.arguments[:2])
    k = _fusion_constant(env, node)
    if first is None or second is None or k is None:
        return None
    return made.Rrf(first, second, k)


def _ranking(env: Env, node: written.Expression) -> made.Nearest | made.Bm25 | None:
    if isinstance(node, written.Call) and node.function in {"nearest", "bm25"}:
        return cast("made.Nearest | made.Bm25 | None", env.check(node))
    env.fail(node.span, "T21", "rrf() fuses two rankings: each is nearest(…) or bm25(…)")
    return None


def _fusion_constant(env: Env, node: written.Call) -> int | None:
    if len(node.arguments) < 3:
        return 60
    given = node.arguments[2]
    if isinstance(given, written.LiteralValue) and given.kind == "integer" and cast("int", given.value) > 0:
        return cast("int", given.value)
    env.fail(given.span, "T21", "the k of rrf() is an integer literal greater than 0")
    return None


def _usable(env: Env, node: written.Call, counts: range) -> bool:
    code = _CODES[node.function]
    if len(node.arguments) not in counts:
        wanted = " or ".join(str(each) for each in counts)
        env.fail(node.span, code, f"{node.function}() takes {wanted} arguments, not {len(node.arguments)}")
        return False
    if env.scope is None:
        env.fail(node.span, code, f"{node.function}() works in reads, not in a mutation")
        return False
    return True


def _field(env: Env, node: written.Call) -> made.PropertyValue | None:
    """The searched property, which must belong to a node."""
    given, code = node.arguments[0], _CODES[node.function]
    if not isinstance(given, written.PropertyUse):
        env.fail(given.span, code, f"the first argument of {node.function}() is a property, as in $d.title")
        return None
    field = env.check(given)
    if field is None:
        return None
    bound = env.scope.find(given.variable) if env.scope else None
    if bound is not None and bound.variable.kind != "node":
        env.fail(given.span, "T23", f"{node.function}() searches nodes: ${given.variable} is {bound.article()}")
        return None
    return cast("made.PropertyValue", field)


def _text_field(env: Env, node: written.Call) -> made.PropertyValue | None:
    field = _field(env, node)
    if field is None or is_text(field.type):
        return field
    env.fail(
        node.arguments[0].span, _CODES[node.function], f"{node.function}() searches a String property, not {field.type}"
    )
    return None


def _text_query(env: Env, node: written.Call) -> Expression | None:
    query = env.check(node.arguments[1])
    if query is None or is_text(query.type):
        return query
    code = "T23" if isinstance(query.type, EntityType) and query.type.kind == "edge" else _CODES[node.function]
    env.fail(node.arguments[1].span, code, f"{node.function}() looks for a String, not {query.type}")
    return None


def _max_edits(env: Env, node: written.Call) -> Expression | None:
    edits = env.check(node.arguments[2])
    if edits is None:
        return None
    negative = isinstance(edits, made.Constant) and is_number(edits.type) and cast("float", edits.value) < 0
    if is_integer(edits.type) and not negative:
        return edits
    env.fail(node.arguments[2].span, "T19", "the largest number of edits is an integer, 0 or more")
    return None


def _vector_query(env: Env, node: written.Expression, query: Expression, field: PropertyType) -> Expression | None:
    if is_text(query.type):
        return query
    if isinstance(query, made.Constant) and isinstance(query.type, PropertyType) and query.type.is_list:
        return _vector_literal(env, node, query, field)
    if isinstance(query.type, PropertyType) and query.type.scalar == "Vector":
        if query.type.dimensions == field.dimensions:
            return query
        env.fail(node.span, "T15", f"nearest() compares {field} with {query.type}: the dimensions differ")
        return None
    code = "T23" if isinstance(query.type, EntityType) and query.type.kind == "edge" else "T15"
    env.fail(node.span, code, f"nearest() takes a vector or a String, not {query.type}")
    return None


def _vector_literal(env: Env, node: written.Expression, query: made.Constant, field: PropertyType) -> Expression | None:
    if not is_number(PropertyType(cast("PropertyType", query.type).scalar)):
        env.fail(node.span, "T15", "the elements of a vector must be numeric")
        return None
    vector = PropertyType("Vector", dimensions=field.dimensions)
    try:
        return made.Constant(convert(query.value, vector), vector)
    except ValueError as error:
        env.fail(node.span, "T15", f"nearest() {error}")
        return None
