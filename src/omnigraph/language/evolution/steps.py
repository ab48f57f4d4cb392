"""The steps of a migration plan. Each says what changes, what it does to a table, and what must be checked first.

Names in a check and in a step are those of the desired schema, unless the field is called `from`. The module also
defines the stable codes of schema changes: how dangerous each change is, and what to do when it is refused.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Literal

from omnigraph.kernels.report import Report
from omnigraph.lazy import record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.catalog.canonical import Json

Tier = Literal["safe", "validated", "destructive"]


@record
class Lint:
    """One kind of change. `validated` changes depend on the data; `destructive` ones lose data."""

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


TypeKind = Literal["interface", "node", "edge"]
DropMode = Literal["soft", "hard"]
StepKind = Literal[
    "add_type",
    "rename_type",
    "add_property",
    "rename_property",
    "extend_enum",
    "widen_property",
    "make_nullable",
    "set_default",
    "add_constraint",
    "remove_constraint",
    "change_cardinality",
    "update_type_metadata",
    "update_property_metadata",
    "drop_type",
    "drop_property",
    "unsupported_change",
]
Rewrite = Literal[
    "none",  # only the schema files change
    "create_table",  # a new empty table
    "move_table",  # rows move to the table of the new name
    "drop_table",  # the table is removed from the graph
    "add_column",  # filled with the default, or with nulls
    "rename_column",
    "cast_column",  # to a wider numeric type
    "relax_column",  # the column becomes nullable
    "drop_column",
    "build_index",
    "drop_index",
]


@record
class DataCheck(Report):
    """A rule that the rows must satisfy before a step may be applied; `constraint` is in its stored form."""

    kind: Literal["unique", "range", "check", "cardinality"]
    table_key: str
    constraint: Json

    def to_dict(self) -> dict[str, Json]:
        """The check as JSON values, as shown in the plan."""
        return {"kind": self.kind, "table_key": self.table_key, "constraint": self.constraint}


@record
class Step(Report):
    """One step. `details` holds the fields of its kind in order; `code` is a key of `LINTS`."""

    kind: StepKind
    details: Mapping[str, Json] = field(default_factory=dict)
    rewrite: Rewrite = "none"
    check: DataCheck | None = None
    code: str | None = None

    def to_dict(self) -> dict[str, Json]:
        """The step as JSON values: the fields of its kind first, then the requirements for applying it."""
        values: dict[str, Json] = {"kind": self.kind, **self.details, **({"code": self.code} if self.code else {})}
        if self.kind == "unsupported_change":
            return values
        return {**values, "rewrite": self.rewrite, "check": self.check.to_dict() if self.check else None}

    def __str__(self) -> str:
        if self.kind == "unsupported_change":
            return f"{self.details['entity']}: {self.details['reason']}"
        values = ", ".join(f"{name} {value}" for name, value in self.details.items())
        return f"{self.kind}: {values}"


def unsupported(entity: str, code: str, reason: str) -> Step:
    """A refused change, with the remedy that its code defines."""
    details: dict[str, Json] = {"entity": entity, "reason": f"[{code}] {reason}", "way_out": LINTS[code].way_out}
    return Step("unsupported_change", details, code=code)
