"""The steps of a migration plan. Each says what changes, what it does to a table, and what must be checked first.

Names in a check and in a step are those of the desired schema, unless the field is called `from`.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Literal

from omnigraph.language.record import record
from omnigraph.language.schema.evolution.lint import LINTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.language.schema.json_text import Json

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
    "move_table",  # the rows go to the table of the new name
    "drop_table",  # the table leaves the graph
    "add_column",  # filled with the default, or with nulls
    "rename_column",
    "cast_column",  # to a wider number
    "relax_column",  # the column becomes nullable
    "drop_column",
    "build_index",
    "drop_index",
]


@record
class DataCheck:
    """A rule that the rows must satisfy before a step may be applied; `constraint` is in its stored form."""

    kind: Literal["unique", "range", "check", "cardinality"]
    table_key: str
    constraint: Json

    def to_json(self) -> Json:
        """For the plan."""
        return {"kind": self.kind, "table_key": self.table_key, "constraint": self.constraint}


@record
class Step:
    """One step. `details` holds the fields of its kind in order; `code` is that of `lint.LINTS`."""

    kind: StepKind
    details: Mapping[str, Json] = field(default_factory=dict)
    rewrite: Rewrite = "none"
    check: DataCheck | None = None
    code: str | None = None

    def to_json(self) -> dict[str, Json]:
        """For people and programs: the fields of the kind first, then what it takes to apply it."""
        told: dict[str, Json] = {"kind": self.kind, **self.details, **({"code": self.code} if self.code else {})}
        if self.kind == "unsupported_change":
            return told
        return {**told, "rewrite": self.rewrite, "check": self.check.to_json() if self.check else None}

    def __str__(self) -> str:
        if self.kind == "unsupported_change":
            return f"{self.details['entity']}: {self.details['reason']}"
        told = ", ".join(f"{name} {value}" for name, value in self.details.items())
        return f"{self.kind}: {told}"


def unsupported(entity: str, code: str, reason: str) -> Step:
    """A change that is refused, with the way out that its code knows."""
    details: dict[str, Json] = {"entity": entity, "reason": f"[{code}] {reason}", "way_out": LINTS[code].way_out}
    return Step("unsupported_change", details, code=code)
