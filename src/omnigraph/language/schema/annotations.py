"""Compiles written annotations to catalog annotations: where each may occur, how often, and with which arguments.

Also parses the numbers of `@range(p, a..b)` and `@card(a..b)`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from omnigraph.catalog.catalog import Annotation, Cardinality
from omnigraph.language.schema.syntax import Bounds, Value

if TYPE_CHECKING:
    from omnigraph.language.schema.findings import Findings
    from omnigraph.language.schema.syntax import AnnotationSyntax, Name

_OF_PROPERTIES = frozenset({"key", "unique", "index", "embed", "default", "metric"})
_NOT_ALLOWED: dict[str, frozenset[str]] = {
    "node": _OF_PROPERTIES,
    "edge": _OF_PROPERTIES,
    "interface property": frozenset({"instruction"}),
    "node property": frozenset({"instruction"}),
    "edge property": frozenset({"instruction", "key", "embed", "metric"}),
}
_ONCE = frozenset({"description", "instruction", "rename_from", "embed", "default", "metric"})
_TEXTS = frozenset({"description", "instruction", "rename_from"})
_WITH_VALUE = frozenset({"embed", "default", "metric"})
# The released program stores these without interpreting them, like every annotation that it does not know.
_UNKNOWN_TO_RELEASED = frozenset({"default", "range", "check", "metric"})
_KEYWORDS: dict[str, frozenset[str]] = {
    "rename_from": frozenset(),
    "default": frozenset(),
    "embed": frozenset({"model"}),
    "metric": frozenset(),
}
METRICS = ("l2", "cosine", "dot")


def annotation_list(
    written: tuple[AnnotationSyntax, ...], subject: str, findings: Findings, *, released: bool
) -> tuple[Annotation, ...]:
    """The annotations of one type or property in canonical order: by name, then value."""
    accepted: list[Annotation] = []
    for syntax in written:
        annotation = Annotation(syntax.name, _value(syntax, findings), _keywords(syntax, findings))
        is_interpreted = syntax.name not in _UNKNOWN_TO_RELEASED or not released
        if not is_interpreted or _is_in_order(syntax, annotation, accepted, subject, findings):
            accepted.append(annotation)
    return in_order(accepted)


def in_order(annotations: list[Annotation]) -> tuple[Annotation, ...]:
    """Sort annotations by name, then value (missing first). The sort is stable."""
    return tuple(sorted(annotations, key=lambda each: (each.name, each.value is not None, each.value or "")))


def _is_in_order(
    syntax: AnnotationSyntax, annotation: Annotation, before: list[Annotation], subject: str, findings: Findings
) -> bool:
    """Whether a known annotation is valid here. Reports misplaced and repeated ones, and wrong arguments."""
    if syntax.name in _NOT_ALLOWED[subject]:
        findings.add("S504", syntax.span, f"@{syntax.name} is not allowed on a{_n(subject)} {subject}")
        return False
    if syntax.name in _ONCE and any(each.name == syntax.name for each in before):
        findings.add("S502", syntax.span, f"@{syntax.name} is given more than once")
        return False
    _check_arguments(syntax, annotation, findings)
    return True


def _check_arguments(syntax: AnnotationSyntax, annotation: Annotation, findings: Findings) -> None:
    name, value = annotation.name, annotation.value
    if name in ("range", "check"):
        findings.add("S401", syntax.span, f"@{name} needs arguments: @{name}(property, …)")
    if name in _TEXTS and not (value or "").strip():
        findings.add("S503", syntax.span, f'@{name} needs a text: @{name}("…")')
    if name in _WITH_VALUE and syntax.arguments is None:
        findings.add("S501", syntax.span, f"@{name} needs an argument")
    if name == "metric" and value is not None and value.lower() not in METRICS:
        findings.add("S501", syntax.span, f"@metric is one of {', '.join(METRICS)}, not {value}")
    for argument in (syntax.arguments or ())[1:]:
        keyword = argument.keyword
        if keyword and keyword.text not in _KEYWORDS.get(name, frozenset({keyword.text})):
            findings.add("S501", argument.span, f"@{name} has no argument `{keyword.text}`")


def _value(syntax: AnnotationSyntax, findings: Findings) -> str | None:
    if syntax.arguments is None:
        return None
    if not syntax.arguments:
        findings.add("S501", syntax.span, f"@{syntax.name}() has no argument: leave the parentheses out")
        return None
    first = syntax.arguments[0]
    if first.keyword is None and isinstance(first.value, Value):
        return first.value.text
    findings.add("S501", first.span, f"the first argument of @{syntax.name} is one value")
    return None


def _keywords(syntax: AnnotationSyntax, findings: Findings) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for argument in (syntax.arguments or ())[1:]:
        name = argument.keyword
        if name is None or not isinstance(argument.value, Value):
            findings.add("S501", argument.span, f"further arguments of @{syntax.name} are written name=value")
        elif name.text in found:
            findings.add("S501", argument.span, f"the argument `{name.text}` is given twice")
        else:
            found[name.text] = argument.value.text
    return tuple(sorted(found.items()))


def _n(subject: str) -> str:
    return "n" if subject[0] in "aeiou" else ""


_LARGEST_COUNT = 2**32 - 1


def range_bounds(written: Bounds, findings: Findings, *, released: bool) -> tuple[float | None, float | None]:
    """Both bounds of a range; a missing bound is open."""
    minimum, maximum = _bound(written.minimum, findings), _bound(written.maximum, findings)
    if not released and minimum is not None and maximum is not None and minimum > maximum:
        findings.add("S408", written.span, "the lower bound is above the upper one")
    return minimum, maximum


def _bound(written: Name | None, findings: Findings) -> float | None:
    """An integer when it is written as one and fits 64 bits, otherwise a float."""
    if written is None:
        return None
    if "." not in written.text and len(written.text) <= 20 and -(2**63) <= int(written.text) < 2**63:
        return int(written.text)
    value = float(written.text)
    if math.isinf(value):
        findings.add("S408", written.span, "this number is too large for a bound")
        return None
    return value


def cardinality_of(written: AnnotationSyntax | None, findings: Findings) -> Cardinality:
    """The value of `@card(min..max)`; without the annotation any number of edges is allowed."""
    if written is None:
        return Cardinality()
    arguments = written.arguments or ()
    bounds = arguments[0].value if len(arguments) == 1 and arguments[0].keyword is None else None
    if not isinstance(bounds, Bounds) or bounds.minimum is None:
        findings.add("S413", written.span, "a cardinality is written @card(min..max) or @card(min..)")
        return Cardinality()
    minimum, maximum = _count(bounds.minimum, findings), _count(bounds.maximum, findings)
    if minimum is not None and maximum is not None and minimum > maximum:
        findings.add("S413", bounds.span, f"at least {minimum} and at most {maximum} cannot both hold")
    return Cardinality(minimum or 0, maximum)


def _count(written: Name | None, findings: Findings) -> int | None:
    if written is None:
        return None
    digits = written.text.lstrip("0") or "0"
    if digits.isdecimal() and len(digits) <= 10 and int(digits) <= _LARGEST_COUNT:
        return int(digits)
    findings.add("S413", written.span, f"a number of edges is a whole number from 0 to {_LARGEST_COUNT}")
    return None
