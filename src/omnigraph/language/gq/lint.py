"""Lint: every query of a text checked, described, and looked at for gaps.

Q000 is a text that cannot be read, Q001 a name declared twice, L201 a property that no update of the file ever sets.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Literal

from omnigraph.errors import QueryError
from omnigraph.language.gq.check import check_query
from omnigraph.language.gq.syntax.parse import parse_queries
from omnigraph.language.gq.syntax.tree import Mutation, Update, Upsert
from omnigraph.language.ir.describe import QueryDescription, describe_operation
from omnigraph.lazy import record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from omnigraph.catalog.catalog import Catalog, NodeType
    from omnigraph.language.gq.syntax.tree import Query, QueryFile

Severity = Literal["error", "warning", "info"]
_SEVERITIES = ("error", "warning", "info")


@record
class Finding:
    """Something about the file as a whole."""

    severity: Severity
    code: str
    message: str
    type_name: str | None = None
    property: str | None = None
    query_names: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """What does not apply is left out."""
        extras = {"type_name": self.type_name, "property": self.property, "query_names": list(self.query_names)}
        present = {key: value for key, value in extras.items() if value}
        return {"severity": self.severity, "code": self.code, "message": self.message, **present}


@record
class QueryResult:
    """One query: whether it passes, and what it would do."""

    name: str
    kind: Literal["read", "mutation"]
    error: str | None = None
    warnings: tuple[str, ...] = ()
    operation: QueryDescription | None = None

    def to_json(self) -> dict[str, object]:
        """What does not apply is left out."""
        found: dict[str, object] = {"name": self.name, "kind": self.kind, "status": "error" if self.error else "ok"}
        if self.warnings:
            found["warnings"] = list(self.warnings)
        if self.error is not None:
            found["error"] = self.error
        if self.operation is not None:
            found["operation"] = self.operation.to_json()
        return found


@record
class LintReport:
    """The outcome of a lint. `schema_source` says where the schema came from: kind and path, or kind and uri."""

    schema_source: Mapping[str, str]
    query_path: str
    results: tuple[QueryResult, ...]
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong; warnings are not wrong."""
        return self.errors == 0

    @property
    def errors(self) -> int:
        """Queries that do not pass, and findings that are errors."""
        return sum(each.error is not None for each in self.results) + self._count("error")

    @property
    def warnings(self) -> int:
        """Warnings of queries and of the file."""
        return sum(len(each.warnings) for each in self.results) + self._count("warning")

    @property
    def infos(self) -> int:
        """Findings that are neither."""
        return self._count("info")

    def _count(self, severity: Severity) -> int:
        return sum(each.severity == severity for each in self.findings)

    def to_json(self) -> dict[str, object]:
        """The report as plain values, in the order that people read it."""
        return {
            "status": "ok" if self.ok else "error",
            "schema_source": dict(self.schema_source),
            "query_path": self.query_path,
            "queries_processed": len(self.results),
            "errors": self.errors,
            "warnings": self.warnings,
            "infos": self.infos,
            "results": [each.to_json() for each in self.results],
            "findings": [each.to_json() for each in self.findings],
        }


def lint(
    text: str, catalog: Catalog, *, query_path: str = "<text>", schema_source: Mapping[str, str] | None = None
) -> LintReport:
    """Check every query of a text. Never raises about the text: what is wrong is in the report."""
    source = schema_source or {"kind": "file", "path": "<schema>"}
    try:
        file = parse_queries(text, query_path)
    except QueryError as error:
        unread = Finding("error", "Q000", _message(error))
        return LintReport(source, query_path, (), (unread,))
    results = tuple(_result(each, catalog) for each in file.queries)
    findings = [*_duplicates(file), *_never_set(file, catalog)]
    return LintReport(source, query_path, results, tuple(sorted(findings, key=_rank)))


def _message(error: QueryError) -> str:
    lines = (f"{each.code}: {each.message} (line {each.line}, column {each.column})" for each in error.diagnostics)
    return "\n".join(lines)


def _rank(finding: Finding) -> tuple[int, str, str, str]:
    return _SEVERITIES.index(finding.severity), finding.type_name or "", finding.property or "", finding.message


def _result(query: Query, catalog: Catalog) -> QueryResult:
    kind: Literal["read", "mutation"] = "mutation" if query.is_mutation else "read"
    warnings = _warnings(query)
    try:
        operation = describe_operation(check_query(query, catalog), catalog)
    except QueryError as error:
        return QueryResult(query.name, kind, _message(error), warnings)
    return QueryResult(query.name, kind, None, warnings, operation)


def _warnings(query: Query) -> tuple[str, ...]:
    if query.is_mutation and not query.parameters:
        return ("this mutation has no parameters: every run writes the same values",)
    return ()


def _duplicates(file: QueryFile) -> Iterable[Finding]:
    counted: dict[str, int] = defaultdict(int)
    for query in file.queries:
        counted[query.name] += 1
    for name, count in counted.items():
        if count > 1:
            yield Finding("error", "Q001", f"query '{name}' is declared {count} times", query_names=(name,))


# -- properties that no update sets ------------------------------------------------------------------------------------


def _never_set(file: QueryFile, catalog: Catalog) -> Iterable[Finding]:
    updaters: dict[str, list[str]] = defaultdict(list)
    assigned: dict[str, set[str]] = defaultdict(set)
    for query in file.queries:
        for statement in query.body.statements if isinstance(query.body, Mutation) else ():
            if isinstance(statement, Update):
                updaters[statement.type_name].append(query.name)
            if isinstance(statement, Update | Upsert):
                assigned[statement.type_name].update(each.name for each in statement.fields)
    for name, queries in updaters.items():
        if (node := catalog.nodes.get(name)) is not None:
            yield from _unset(node, assigned[name], tuple(sorted(set(queries))))


def _unset(node: NodeType, assigned: set[str], queries: tuple[str, ...]) -> Iterable[Finding]:
    for name, each in node.properties.items():
        settable = each.type.nullable and name not in node.rules.key and each.embed_source is None
        if settable and name not in assigned:
            message = f"{node.name}.{name} can be null and is updated by no query of this file"
            yield Finding("warning", "L201", message, node.name, name, queries)
