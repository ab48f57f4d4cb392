"""The one check of a query, used by lint and by execution alike.

Findings carry the codes T1 to T24 of the released language; T25 is about paths, T0 is every rule without a number, and
D2 is the rule that a mutation writes or deletes, never both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import QueryError
from omnigraph.language.gq.check.environment import CheckScope, Session
from omnigraph.language.gq.check.expressions import check_expression
from omnigraph.language.gq.check.mutations import check_statements
from omnigraph.language.gq.check.names import declare_parameters
from omnigraph.language.gq.check.patterns import check_pattern
from omnigraph.language.gq.check.results import check_results
from omnigraph.language.gq.syntax import tree
from omnigraph.language.ir.query import CheckedMutation, CheckedQuery, Parameter

if TYPE_CHECKING:
    from omnigraph.catalog.catalog import Catalog


def check_query(query: tree.Query, catalog: Catalog) -> CheckedQuery | CheckedMutation:
    """A query that can run against this catalog. Raises `QueryError` with everything that was found."""
    session = Session(query, catalog, check_expression)
    parameters = declare_parameters(session)
    checked = (
        _read(session, query.body, parameters)
        if isinstance(query.body, tree.ReadQuery)
        else _mutation(session, query.body, parameters)
    )
    if session.findings:
        raise QueryError(tuple(sorted(session.findings, key=lambda each: (each.start, each.end))))
    return checked


def _read(session: Session, body: tree.ReadQuery, parameters: tuple[Parameter, ...]) -> CheckedQuery:
    scope = CheckScope()
    pattern = check_pattern(session, body.clauses, scope)
    outcome = check_results(session, body, scope)
    return CheckedQuery(
        name=session.query.name,
        parameters=parameters,
        pattern=pattern,
        columns=outcome.columns,
        distinct=body.distinct,
        aggregated=outcome.aggregated,
        having=outcome.having,
        order=outcome.order,
        limit=outcome.limit,
        offset=outcome.offset,
        uses_now=session.uses_now,
        description=session.query.description,
        instruction=session.query.instruction,
        source=session.query.source,
    )


def _mutation(session: Session, body: tree.Mutation, parameters: tuple[Parameter, ...]) -> CheckedMutation:
    statements = check_statements(session, body)
    return CheckedMutation(
        name=session.query.name,
        parameters=parameters,
        statements=statements,
        uses_now=session.uses_now,
        description=session.query.description,
        instruction=session.query.instruction,
        source=session.query.source,
    )
