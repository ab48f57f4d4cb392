"""The `.gq` query language: text to syntax, syntax and catalog to a checked tree, values to parameters, and lint.

Importing this package loads nothing else of it: each name below brings its module when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.language.lazy_names import names_from

if TYPE_CHECKING:
    from omnigraph.language.query.check import check_query
    from omnigraph.language.query.checked import HOP_CAP, CheckedMutation, CheckedQuery
    from omnigraph.language.query.linting import LintReport, lint
    from omnigraph.language.query.operation import describe_operation, describe_parameters
    from omnigraph.language.query.params import bind_params
    from omnigraph.language.query.parse import parse_queries
    from omnigraph.language.query.syntax import Query, QueryFile

__all__ = [
    "HOP_CAP",
    "CheckedMutation",
    "CheckedQuery",
    "LintReport",
    "Query",
    "QueryFile",
    "bind_params",
    "check_query",
    "describe_operation",
    "describe_parameters",
    "lint",
    "parse_queries",
]

_MODULES = {
    "HOP_CAP": "checked",
    "CheckedMutation": "checked",
    "CheckedQuery": "checked",
    "LintReport": "linting",
    "Query": "syntax",
    "QueryFile": "syntax",
    "bind_params": "params",
    "check_query": "check",
    "describe_operation": "operation",
    "describe_parameters": "operation",
    "lint": "linting",
    "parse_queries": "parse",
}

__getattr__ = names_from(__name__, _MODULES)
