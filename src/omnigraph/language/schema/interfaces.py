"""What a node takes from the interfaces it implements."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.language.schema.codes import Findings
    from omnigraph.language.schema.properties import Member
    from omnigraph.language.schema.syntax import Name

Members = dict[str, "Member"]


def inherit(
    own: Members, implements: tuple[Name, ...], interfaces: Mapping[str, Members], findings: Findings, *, released: bool
) -> Members:
    """A node's own properties followed by those its interfaces bring along."""
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
    """Two interfaces may bring the same property only if they mean the same by it."""
    same_type = present.property.type == promised.property.type
    # The released program compared types alone and kept the first interface's annotations.
    if same_type and (released or present.property == promised.property):
        return
    findings.add(
        "S302",
        interface.span,
        f"interface {interface.text} disagrees with another one about `{promised.property.name}`: declare it here",
    )
