"""Runs a checked query on Spark. A query that Spark cannot run is executed in this process, its rows converted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pyarrow as pa
from sqlglot import exp

from omnigraph.expressions.dialects import aggregated, rendered
from omnigraph.expressions.pushdown import RequestValues
from omnigraph.expressions.result_query import MATCHES, LimitOffset, ResultQuery
from omnigraph.expressions.sql import SqlBuilder
from omnigraph.language.ir.expressions import EntityValue, Expression, ParameterValue, PropertyValue
from omnigraph.query.plan.conditions import deciding
from omnigraph.query.plan.estimates import Estimates
from omnigraph.query.plan.planner import Planner, visible
from omnigraph.spark.query.frames import KEY, Frames, by_key, properties, refusal, wholes
from omnigraph.spark.query.matcher import FrameMatcher
from omnigraph.spark.types import spark_schema, to_spark

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from omnigraph.language.ir.query import CheckedQuery, Pattern, Variable
    from omnigraph.query.run import PreparedQuery


def run_on_spark(session: SparkSession, prepared: PreparedQuery) -> DataFrame:
    """The result as a frame, pinned to the snapshot. Columns are named as by the embedded engine."""
    if refusal(prepared.checked) is not None:
        return handed_over(session, prepared.run().to_arrow())
    snapshot, catalog, params, timestamp = prepared.snapshot, prepared.catalog, prepared.params, prepared.timestamp
    keyed = by_key(prepared.checked)
    location = prepared.tables.location
    frames = Frames(session, location, snapshot, catalog, properties(keyed), frozenset(wholes(keyed)))
    builder = SqlBuilder(params, timestamp, _leaf, aggregated)
    planner = Planner(Estimates(snapshot, catalog), RequestValues(params, timestamp))
    variables = {each.name: each for each in _everything(keyed.pattern)}
    steps = planner.plan(keyed.pattern, {}, frozenset(each.name for each in visible(keyed.pattern)))
    matches = FrameMatcher(frames, builder, variables).run(steps)
    return _outcome(session, keyed, builder, params, matches)


def handed_over(session: SparkSession, rows: pa.Table) -> DataFrame:
    """Convert an Arrow table of this process to a Spark frame."""
    plain = pa.schema([each.with_nullable(True) for each in rows.schema])
    batches = [to_spark(each, plain) for each in rows.cast(plain).to_batches()]
    if not batches:
        return session.createDataFrame([], spark_schema(plain))
    return session.createDataFrame(pa.Table.from_batches(batches))


def _everything(pattern: Pattern) -> list[Variable]:
    inner = (*pattern.optionals, *pattern.negations)
    return [*pattern.variables, *(each for one in inner for each in _everything(one))]


def _leaf(expression: Expression) -> exp.Expr:
    if isinstance(expression, EntityValue):
        return exp.column(expression.variable, quoted=True)
    assert isinstance(expression, PropertyValue), f"{type(expression).__name__} has no column"
    return _of(expression.variable, expression.property)


def _of(variable: str, name: str) -> exp.Expr:
    return exp.column(f"{variable}.{name}", quoted=True)


def _outcome(
    session: SparkSession,
    checked: CheckedQuery,
    builder: SqlBuilder,
    params: Mapping[str, object],
    matches: DataFrame,
) -> DataFrame:
    ties = [_of(each.name, name) for each in deciding(checked) for name in ("id", KEY)]
    outcome = ResultQuery(checked, replace(builder, leaf=_leaf), _identity, ties=ties)
    query = outcome.query(LimitOffset(_bound(checked.limit, params), _bound(checked.offset, params) or 0))
    # `session.sql` treats braces as frame placeholders, so braces in literals are escaped.
    text = rendered(query.transform(_substituted)).replace("{", "{{").replace("}", "}}")
    text = text.replace(f"`{_MARK}`", f"{{{MATCHES}}}")
    return session.sql(text, None, **{MATCHES: matches}).toDF(*(each.name for each in checked.columns))


_MARK = "#the matches of this query"


def _substituted(node: exp.Expr) -> exp.Expr:
    return exp.to_identifier(_MARK, quoted=True) if isinstance(node, exp.Table) and node.name == MATCHES else node


def _identity(entity: EntityValue) -> exp.Expr:
    """The sort key of an entity: its id, then its key, which adds the type."""
    return exp.Anonymous(this="struct", expressions=[_of(entity.variable, "id"), _of(entity.variable, KEY)])


def _bound(bound: int | ParameterValue | None, params: Mapping[str, object]) -> int | None:
    return cast("int", params[bound.name]) if isinstance(bound, ParameterValue) else bound
