"""The stable codes of schema changes: how dangerous each is, and the way out when it is refused."""

from __future__ import annotations

from typing import Literal

from omnigraph.language.record import record

Tier = Literal["safe", "validated", "destructive"]


@record
class Lint:
    """One kind of change. `validated` changes depend on the data, `destructive` ones lose some."""

    code: str
    tier: Tier
    summary: str
    way_out: str = ""


_ALL = (
    Lint("OG-DS-102", "destructive", "a type is dropped with its rows"),
    Lint("OG-DS-103", "destructive", "a property is dropped with its values"),
    Lint("OG-MF-101", "validated", "a new @unique must hold for the rows that are there"),
    Lint("OG-MF-102", "validated", "a new @range or @check must hold for the rows that are there"),
    Lint(
        "OG-MF-103",
        "validated",
        "a new required property has no value for the rows that are there",
        "give it a default, @default(…), or make it nullable with `?`",
    ),
    Lint("OG-MF-105", "validated", "a tighter cardinality must hold for the edges that are there"),
    Lint(
        "OG-MF-106",
        "destructive",
        "a property changes to a type that cannot hold all its values",
        "add a new property of the new type, copy the values, then drop the old one",
    ),
    Lint(
        "OG-MF-107",
        "destructive",
        "a change of the key changes the id of every row",
        "export the graph and load it into a new one with the new key",
    ),
    Lint("OG-BC-101", "safe", "a type is renamed: queries with the old name stop working"),
    Lint("OG-BC-102", "safe", "a property is renamed: queries with the old name stop working"),
    Lint(
        "OG-BC-103",
        "destructive",
        "an interface is removed or a type changes what it implements",
        "keep the interface; a node can declare more properties beside it",
    ),
    Lint(
        "OG-BC-104",
        "destructive",
        "an annotation that this release does not know is changed",
        "keep it as it was; @description and @instruction can change",
    ),
    Lint(
        "OG-BC-105",
        "destructive",
        "the schemas differ in a way that no step covers",
        "make the change in smaller steps",
    ),
    Lint("OG-CD-101", "safe", "a constraint is removed"),
    Lint("OG-CD-102", "safe", "a cardinality is loosened"),
    Lint(
        "OG-NM-101",
        "validated",
        "@rename_from names something that is not there",
        "name a type of the same kind, or a property of the same type, in the accepted schema; or leave it out",
    ),
    Lint(
        "OG-NM-102",
        "validated",
        "two declarations claim the same accepted name",
        "leave @rename_from on one of them",
    ),
    Lint(
        "OG-ED-101",
        "destructive",
        "an edge changes the types it connects",
        "add a new edge type, copy the edges, then drop the old one",
    ),
    Lint(
        "OG-VE-101",
        "destructive",
        "a vector changes what or with which model it is embedded from",
        "add a new vector property with the new @embed, fill it, then drop the old one",
    ),
)
LINTS: dict[str, Lint] = {each.code: each for each in _ALL}
