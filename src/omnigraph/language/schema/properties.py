"""Compiles a written property to a catalog property: its type and its annotations.

Also adds the properties that a node inherits from the interfaces it implements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast

from omnigraph.catalog.catalog import Property, PropertyType, ScalarName
from omnigraph.catalog.defaults import can_have_default, declared_default, default_value
from omnigraph.kernels.row_address import SYSTEM_COLUMNS
from omnigraph.language.schema.annotations import annotation_list
from omnigraph.language.schema.syntax import Value
from omnigraph.lazy import record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.language.schema.findings import Findings
    from omnigraph.language.schema.syntax import Name, PropertySyntax, TypeSyntax

Members = dict[str, "Member"]


def inherit(
    own: Members, implements: tuple[Name, ...], interfaces: Mapping[str, Members], findings: Findings, *, released: bool
) -> Members:
    """The properties of a node followed by those that it inherits from its interfaces."""
    everything = dict(own)
    for interface in implements:
        if interface.text not in interfaces:
            findings.add("S106", interface.span, f"there is no interface `{interface.text}`")
            continue
        for name, promised in interfaces[interface.text].items():
            present = everything.setdefault(name, promised)
            if name in own:
                _check_own(present, promised, interface, findings)
            else:
                _check_brought(present, promised, interface, findings, released=released)
    return everything


def _check_own(present: Member, promised: Member, interface: Name, findings: Findings) -> None:
    if present.property.type != promised.property.type:
        findings.add(
            "S301",
            present.syntax.type.span,
            f"`{present.property.name}` is {promised.property.type} in interface {interface.text}, and must be here",
        )


def _check_brought(present: Member, promised: Member, interface: Name, findings: Findings, *, released: bool) -> None:
    """Refuse a property that two interfaces define differently."""
    same_type = present.property.type == promised.property.type
    # The released program compared types only and used the annotations of the first interface.
    if same_type and (released or present.property == promised.property):
        return
    findings.add(
        "S302",
        interface.span,
        f"interface {interface.text} disagrees with another one about `{promised.property.name}`: declare it here",
    )


Owner = Literal["interface", "node", "edge"]

LARGEST_VECTOR = 2**31 - 1
_OF_EVERY_TABLE = SYSTEM_COLUMNS | {"id"}
_EDGE_COLUMNS = frozenset({"src", "dst"})


@record
class Member:
    """A property with the syntax node that declared it, which gives later findings their position."""

    property: Property
    syntax: PropertySyntax


def members(
    written: tuple[PropertySyntax, ...], owner: Owner, findings: Findings, *, released: bool
) -> dict[str, Member]:
    """The properties of one body by name, in source order."""
    found: dict[str, Member] = {}
    for syntax in written:
        name = syntax.name.text
        if name in _OF_EVERY_TABLE or (owner == "edge" and name in _EDGE_COLUMNS):
            findings.add(
                "S104", syntax.name.span, f"`{name}` is a column of its own in every table: choose another name"
            )
        elif name in found:
            findings.add("S103", syntax.name.span, f"the property `{name}` is declared twice")
        else:
            found[name] = Member(_property(syntax, owner, findings, released=released), syntax)
    return found


def _property(syntax: PropertySyntax, owner: Owner, findings: Findings, *, released: bool) -> Property:
    declared = _type(syntax.type, findings)
    annotations = annotation_list(syntax.annotations, f"{owner} property", findings, released=released)
    embed = next((each for each in annotations if each.name == "embed"), None)
    if embed and declared.scalar != "Vector":
        _refuse_embed(syntax, declared, findings)
    if not released:
        _check_default(syntax, declared, findings)
        _check_metric(syntax, declared, findings)
    return Property(
        syntax.name.text,
        declared,
        annotations,
        default=declared_default(declared, annotations),
        embed_source=embed.value if embed else None,
        embed_model=dict(embed.arguments).get("model") if embed else None,
    )


def _refuse_embed(syntax: PropertySyntax, declared: PropertyType, findings: Findings) -> None:
    span = next(each.span for each in syntax.annotations if each.name == "embed")
    findings.add("S505", span, f"@embed fills a Vector, and `{syntax.name.text}` is a {declared}")


def _check_metric(syntax: PropertySyntax, declared: PropertyType, findings: Findings) -> None:
    for each in syntax.annotations:
        if each.name == "metric" and declared.scalar != "Vector":
            findings.add("S504", each.span, f"@metric compares Vectors, and `{syntax.name.text}` is a {declared}")


def _type(syntax: TypeSyntax, findings: Findings) -> PropertyType:
    if syntax.scalar == "enum":
        return PropertyType("String", syntax.nullable, enum_values=_enum_values(syntax, findings))
    if syntax.dimensions is not None:
        return PropertyType("Vector", syntax.nullable, dimensions=_dimensions(syntax, findings))
    if syntax.is_list and syntax.scalar == "Blob":
        findings.add("S006", syntax.span, "there are no lists of Blob: give each blob a node of its own")
    return PropertyType(cast("ScalarName", syntax.scalar), syntax.nullable, is_list=syntax.is_list)


def _enum_values(syntax: TypeSyntax, findings: Findings) -> tuple[str, ...]:
    seen: set[str] = set()
    for value in syntax.enum_values:
        if value.text in seen:
            findings.add("S201", value.span, f"the enum value `{value.text}` is given twice")
        seen.add(value.text)
    return tuple(sorted(seen))


def _dimensions(syntax: TypeSyntax, findings: Findings) -> int:
    written = syntax.dimensions
    assert written is not None
    digits = written.text.lstrip("0")
    if written.text.isdecimal() and 0 < len(digits) <= 10 and int(digits) <= LARGEST_VECTOR:
        return int(digits)
    findings.add("S202", written.span, f"a vector has from 1 to {LARGEST_VECTOR} dimensions")
    return 1


def _check_default(syntax: PropertySyntax, declared: PropertyType, findings: Findings) -> None:
    written = next((each for each in syntax.annotations if each.name == "default"), None)
    if written is None or not written.arguments or not isinstance(written.arguments[0].value, Value):
        return
    if not can_have_default(declared):
        findings.add(
            "S509", written.span, f"a property of type {declared} cannot have a default: scalars and enums can"
        )
        return
    try:
        default_value(declared, written.arguments[0].value.text)
    except ValueError as error:
        findings.add("S508", written.arguments[0].span, f"this is no {declared}: {error}")
