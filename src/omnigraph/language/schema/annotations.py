"""From written annotations to catalog annotations: which may stand where, how often, and with what arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.language.schema.catalog import Annotation
from omnigraph.language.schema.syntax import Value

if TYPE_CHECKING:
    from omnigraph.language.schema.codes import Findings
    from omnigraph.language.schema.syntax import AnnotationSyntax

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
# The released program kept these without reading them, as it keeps every annotation that it does not know.
_UNKNOWN_TO_RELEASED = frozenset({"default", "range", "check", "metric"})
_KEYWORDS: dict[str, frozenset[str]] = {
    "rename_from": frozenset(),
    "default": frozenset(),
    "embed": frozenset({"model"}),
    "metric": frozenset(),
}
METRICS = ("l2", "cosine", "dot")


def annotation_list(
    written: tuple[AnnotationSyntax, ...], place: str, findings: Findings, *, released: bool
) -> tuple[Annotation, ...]:
    """The annotations of one type or property in canonical order: by name, then value."""
    kept: list[Annotation] = []
    for syntax in written:
        annotation = Annotation(syntax.name, _value(syntax, findings), _keywords(syntax, findings))
        known = syntax.name not in _UNKNOWN_TO_RELEASED or not released
        if not known or _is_in_order(syntax, annotation, kept, place, findings):
            kept.append(annotation)
    return in_order(kept)


def in_order(annotations: list[Annotation]) -> tuple[Annotation, ...]:
    """Canonical order: by name, then value, none before any; equal ones keep their order."""
    return tuple(sorted(annotations, key=lambda each: (each.name, each.value is not None, each.value or "")))


def _is_in_order(
    syntax: AnnotationSyntax, annotation: Annotation, before: list[Annotation], place: str, findings: Findings
) -> bool:
    """Whether a known annotation may stand here; what it lacks is noted."""
    if syntax.name in _NOT_ALLOWED[place]:
        findings.add("S504", syntax.span, f"@{syntax.name} is not allowed on a{_n(place)} {place}")
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


def _n(place: str) -> str:
    return "n" if place[0] in "aeiou" else ""
