"""Rules between the properties of one node: where embeddings come from, and defaults that its constraints allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.language.schema.patterns import pattern_fault, pattern_matches

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.language.schema.catalog import TypeRules
    from omnigraph.language.schema.codes import Findings
    from omnigraph.language.schema.properties import Member
    from omnigraph.language.schema.syntax import AnnotationSyntax


def check_embeds(members: Mapping[str, Member], findings: Findings) -> None:
    """A vector is embedded from a String of the same node."""
    for member in members.values():
        source = member.property.embed_source
        if source is None:
            continue
        origin = members.get(source)
        if origin is None or origin.property.type.scalar != "String" or origin.property.type.is_list:
            span = _annotation(member, "embed").span
            findings.add("S506", span, f"@embed reads a String property of this node, and `{source}` is none")


def check_defaults(members: Mapping[str, Member], rules: TypeRules, findings: Findings) -> None:
    """A default must pass the ranges and checks of its own property."""
    for member in members.values():
        default = member.property.default
        fault = None if default is None else _fault(member.property.name, default, rules)
        if fault:
            findings.add("S508", _annotation(member, "default").span, f"the default {default!r} {fault}")


def _fault(name: str, default: object, rules: TypeRules) -> str | None:
    for each in rules.ranges:
        if (
            each.property == name
            and isinstance(default, int | float)
            and not _inside(default, each.minimum, each.maximum)
        ):
            return "lies outside the range of the property"
    for check in rules.checks:
        if check.property != name or pattern_fault(check.pattern):
            continue
        if not pattern_matches(check.pattern, str(default)):
            return f"does not match {check.pattern!r}"
    return None


def _inside(value: float, minimum: float | None, maximum: float | None) -> bool:
    return (minimum is None or value >= minimum) and (maximum is None or value <= maximum)


def _annotation(member: Member, name: str) -> AnnotationSyntax:
    return next(each for each in member.syntax.annotations if each.name == name)
