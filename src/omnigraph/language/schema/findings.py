"""The stable codes of everything that can be wrong with a `.pg` text, and the collector of findings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.errors import Diagnostic, SchemaError
from omnigraph.language.core.diagnostics import diagnostic

if TYPE_CHECKING:
    from omnigraph.language.core.diagnostics import Span

CODES: dict[str, str] = {
    "S001": "the text does not follow the grammar",
    "S002": "a string is not closed",
    "S003": "a comment is not closed",
    "S004": "an escape sequence that strings do not have",
    "S005": "a type that does not exist",
    "S006": "a list of something other than a scalar",
    "S007": "the text is not valid Unicode",
    "S008": "a comma, annotation or constraint where none is allowed",
    "S101": "a type declared twice",
    "S102": "edge names that differ only in case",
    "S103": "a property declared twice",
    "S104": "a reserved property name",
    "S105": "an edge between types that do not exist",
    "S106": "an interface that does not exist",
    "S107": "two names whose stored ids collide",
    "S201": "an enum value given twice",
    "S202": "a vector with an impossible number of dimensions",
    "S301": "a property whose type differs from its interface's",
    "S302": "interfaces that declare a property differently",
    "S401": "a constraint with the wrong arguments",
    "S402": "a constraint on a property that does not exist",
    "S403": "more than one key",
    "S404": "a key on a property that cannot be one",
    "S405": "a property that cannot be unique",
    "S406": "a property that cannot be indexed",
    "S407": "a range on a property that is not a number",
    "S408": "range bounds that are empty or too large",
    "S409": "a check on a property that is not a String",
    "S410": "a check whose regular expression is invalid",
    "S411": "a constraint that is not allowed on edges",
    "S412": "an edge key without src and dst",
    "S413": "a cardinality that is malformed",
    "S414": "a cardinality at the wrong position",
    "S415": "a property named twice in one constraint",
    "S501": "an annotation with the wrong arguments",
    "S502": "an annotation given more than once",
    "S503": "an annotation that needs a text",
    "S504": "an annotation that is not allowed here",
    "S505": "@embed on a property that is not a Vector",
    "S506": "@embed from a property that is not a String of the same node",
    "S508": "a default that does not have the type of its property or violates a constraint",
    "S509": "a default on a type that cannot have one",
}

_MOST_FINDINGS = 100


@dataclass
class Findings:
    """What is wrong with one text, gathered so that a user sees it all at once."""

    text: str
    source_name: str
    found: list[Diagnostic] = field(default_factory=list)

    def add(self, code: str, span: Span, message: str) -> None:
        """Note a finding; a text with more than a hundred is not helped by more."""
        if len(self.found) < _MOST_FINDINGS:
            place = {"start": span.start, "end": span.end}
            self.found.append(diagnostic(self.text, **place, message=message, code=code, source_name=self.source_name))

    def raise_if_any(self) -> None:
        """Raise everything found, in the order of the text."""
        if self.found:
            raise SchemaError(tuple(sorted(self.found, key=lambda each: (each.start, each.end, each.code))))
