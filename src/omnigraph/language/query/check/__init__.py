"""The one check of a query, used by lint and by execution alike.

Findings carry the codes T1 to T24 of the released language; T25 is about paths, T0 is every rule without a number, and
D2 is the rule that a mutation writes or deletes, never both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import QueryError
from omnigraph.language.query import syntax
from omnigraph.language.query.check.environment import Scope, Session
from omnigraph.language.query.check.expressions import check_expression
from omnigraph.language.query.check.mutations import check_statements
from omnigraph.language.query.check.parameters import declare_parameters
from omnigraph.language.query.check.patterns import check_pattern
from omnigraph.language.query.check.results import check_results
from omnigraph.language.query.checked import CheckedMutation, CheckedQuery, Parameter

if TYPE_CHECKING:
    from omnigraph.language.schema.catalog import Catalog


def check_query(query: syntax.Query, catalog: Catalog) -> CheckedQuery | CheckedMutation:
    """A query that can run against this catalog. Raises `QueryError` with everything that was found."""
    session = Session(query, catalog, check_expression)
    parameters = declare_parameters(session)
    checked = (
        _read(session, query.body, parameters)
        if isinstance(query.body, syntax.Read)
        else _mutation(session, query.body, parameters)
    )
    if session.findings:
        raise QueryError(tuple(sorted(session.findings, key=lambda each: (each.start, each.end))))
    return checked


def _read(session: Session, body: syntax.Read, parameters: tuple[Parameter, ...]) -> CheckedQuery:
    scope = Scope()
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


def _mutation(session: Session, body: syntax.Mutation, parameters: tuple[Parameter, ...]) -> CheckedMutation:
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
