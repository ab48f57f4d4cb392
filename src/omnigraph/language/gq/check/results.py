"""What comes out of a read: columns, groups, order, limit."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.catalog.catalog import PropertyType
from omnigraph.language.gq.check.comparisons import condition
from omnigraph.language.gq.check.environment import Env
from omnigraph.language.gq.check.functions import refuse_ungrouped
from omnigraph.language.gq.syntax.column_names import column_names
from omnigraph.language.gq.syntax.expressions import VariableUse
from omnigraph.language.ir import expressions as made
from omnigraph.language.ir.query import Column, OrderKey
from omnigraph.language.ir.types import NullType, is_blob, is_integer
from omnigraph.lazy import record

if TYPE_CHECKING:
    from omnigraph.language.core.diagnostics import Span
    from omnigraph.language.gq.check.environment import CheckScope, Session
    from omnigraph.language.gq.syntax import tree
    from omnigraph.language.ir.expressions import Expression


@record
class CheckedResult:
    """The checked half of a read that follows `match`."""

    columns: tuple[Column, ...]
    aggregated: bool
    having: tuple[Expression, ...]
    order: tuple[OrderKey, ...]
    limit: int | made.ParameterValue | None
    offset: int | made.ParameterValue | None


def check_results(session: Session, body: tree.ReadQuery, scope: CheckScope) -> CheckedResult:
    """Columns, groups, order and bounds of a read."""
    values = _columns(Env(session, "return", scope), body)
    if any(each is None for each in values):
        return CheckedResult((), aggregated=False, having=(), order=(), limit=None, offset=None)
    names = column_names(body.projections)
    columns = tuple(Column(name, value, value.type) for name, value in zip(names, values, strict=True) if value)
    aliases = {
        each.alias: made.ColumnValue(index, each.alias, columns[index].type)
        for index, each in enumerate(body.projections)
        if each.alias is not None
    }
    having = _having(Env(session, "having", scope, columns=aliases), body)
    order = _order(Env(session, "order", scope, columns=aliases), body, columns)
    aggregated = _has_aggregate([each.value for each in columns], having, [each.value for each in order])
    _check_groups(session, body, columns, having, order, aggregated=aggregated)
    limit, offset = _bound(session, body.limit), _bound(session, body.offset)
    _check_ranking(session, body, columns, order)
    return CheckedResult(columns, aggregated, tuple(having), tuple(order), limit, offset)


# -- columns -----------------------------------------------------------------------------------------------------------


def _columns(env: Env, body: tree.ReadQuery) -> list[Expression | None]:
    counted = Counter(each.alias for each in body.projections if each.alias is not None)
    for each in body.projections:
        if each.alias is not None and counted.pop(each.alias, 0) > 1:
            env.fail(each.span, "T0", f"two columns are called '{each.alias}': give each its own alias")
    return [_readable(env, each.value.span, env.check(each.value)) for each in body.projections]


def _readable(env: Env, span: Span, value: Expression | None) -> Expression | None:
    if value is None:
        return None
    if is_blob(value.type):
        env.fail(span, "T24", "a Blob cannot be read as a value")
        return None
    if isinstance(value.type, NullType):
        env.fail(span, "T7", "null alone has no type: it belongs in an assignment or after `is`")
        return None
    return value


# -- having and order --------------------------------------------------------------------------------------------------


def _having(env: Env, body: tree.ReadQuery) -> list[Expression]:
    checked = [condition(env, each) for each in body.having]
    return [part for each in checked if each is not None for part in made.conjuncts(each)]


def _order(env: Env, body: tree.ReadQuery, columns: tuple[Column, ...]) -> list[OrderKey]:
    keys = []
    for each in body.order:
        value = _readable(env, each.value.span, env.check(each.value))
        if value is None or not _sortable(env, each, value):
            continue
        returned = _returned(value, columns)
        keys.append(OrderKey(returned, _descending(env.session, each, _source(returned, columns))))
    return keys


def _sortable(env: Env, ordering: tree.Ordering, value: Expression) -> bool:
    unordered = isinstance(value.type, PropertyType) and (value.type.is_list or value.type.scalar == "Vector")
    if unordered:
        env.fail(ordering.value.span, "T7", f"{value.type} values have no order")
    return not unordered


def _returned(value: Expression, columns: tuple[Column, ...]) -> Expression:
    """A key that is a column already is taken from there."""
    for index, column in enumerate(columns):
        if column.value == value:
            return made.ColumnValue(index, column.name, column.type)
    return value


def _source(value: Expression, columns: tuple[Column, ...]) -> Expression:
    return columns[value.index].value if isinstance(value, made.ColumnValue) else value


def _descending(session: Session, ordering: tree.Ordering, value: Expression) -> bool:
    """Rankings go from the best to the worst unless told otherwise; everything else ascends."""
    if isinstance(value, made.Nearest) and ordering.direction == "desc":
        session.report(ordering.span, "T18", "nearest() finds what is near: it cannot be ordered descending")
    if isinstance(value, made.Rrf) and ordering.direction == "asc":
        session.report(ordering.span, "T21", "rrf() ranks the best first: it cannot be ordered ascending")
    if ordering.direction is None:
        return isinstance(value, made.Bm25 | made.Rrf)
    return ordering.direction == "desc"


# -- groups ------------------------------------------------------------------------------------------------------------


def _has_aggregate(*expressions: list[Expression]) -> bool:
    return any(made.contains(each, made.Aggregate) for several in expressions for each in several)


def _check_groups(
    session: Session,
    body: tree.ReadQuery,
    columns: tuple[Column, ...],
    having: list[Expression],
    order: list[OrderKey],
    *,
    aggregated: bool,
) -> None:
    env = Env(session, "return")
    if body.having and not aggregated:
        session.report(body.having[0].span, "T9", "having filters groups, and nothing is aggregated: filter in match")
    if aggregated:
        keys = frozenset(each.value for each in columns if not made.contains(each.value, made.Aggregate))
        for projection, column in zip(body.projections, columns, strict=True):
            refuse_ungrouped(env, projection.span, column.value, keys)
        for value in having:
            refuse_ungrouped(env, body.having[0].span.to(body.having[-1].span), value, keys)
        for key in order:
            refuse_ungrouped(env, body.order[0].span.to(body.order[-1].span), key.value, keys)
    elif body.distinct:
        _refuse_hidden_keys(session, body, order)


def _refuse_hidden_keys(session: Session, body: tree.ReadQuery, order: list[OrderKey]) -> None:
    """Equal rows become one: a value that is not returned may differ between them."""
    for key in order:
        if made.variables_of(key.value):
            place = body.order[0].span.to(body.order[-1].span)
            session.report(place, "T9", "with distinct, order by what is returned")
            return


# -- bounds ------------------------------------------------------------------------------------------------------------


def _bound(session: Session, bound: tree.Bound | None) -> int | made.ParameterValue | None:
    if bound is None:
        return None
    if not isinstance(bound.value, VariableUse):
        return bound.value
    declared = session.parameters.get(bound.value.name)
    if declared is None:
        session.report(bound.value.span, "T0", f"${bound.value.name} is not a declared parameter of this query")
    elif not is_integer(declared) or declared.nullable:
        session.report(bound.value.span, "T7", f"{bound.kind} takes an integer that is never null, not {declared}")
    else:
        return made.ParameterValue(bound.value.name, declared)
    return None


def _check_ranking(session: Session, body: tree.ReadQuery, columns: tuple[Column, ...], order: list[OrderKey]) -> None:
    if body.limit is not None:
        return
    keys = [replace(each, value=_source(each.value, columns)).value for each in order]
    place = body.order[0].span.to(body.order[-1].span) if body.order else body.projections[0].span
    if any(made.contains(each, made.Nearest) and not made.contains(each, made.Rrf) for each in keys):
        session.report(place, "T17", "an order by nearest() needs a limit: how many of the nearest?")
    if any(made.contains(each, made.Rrf) for each in (*keys, *(column.value for column in columns))):
        session.report(place, "T21", "rrf() needs a limit: it fuses the best of two rankings")
