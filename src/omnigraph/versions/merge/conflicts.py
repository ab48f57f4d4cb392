"""Where two branches disagree, and who decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from omnigraph.errors import CardinalityViolation, ConstraintViolation, OrphanEdge, UniqueViolation

ConflictKind = Literal[
    "DivergentInsert",
    "DivergentUpdate",
    "DeleteVsUpdate",
    "OrphanEdge",
    "UniqueViolation",
    "CardinalityViolation",
    "ValueConstraintViolation",
]

Row = dict[str, Any]
Choice = Literal["ours", "theirs"]


@dataclass(frozen=True)
class Conflict:
    """One entity that both sides changed, or that breaks a rule once both changes are in.

    `base`, `ours` and `theirs` are the entity before both, on the target and on the source; None where it is not there.
    `properties` are those that both sides changed, each in its own way.
    """

    kind: ConflictKind
    table_key: str
    row_id: str
    message: str
    base: Row | None = None
    ours: Row | None = None
    theirs: Row | None = None
    properties: tuple[str, ...] = ()

    @property
    def is_about_rows(self) -> bool:
        """Whether choosing a side, or a row, settles it. The others are settled by changing the data."""
        return self.kind in ("DivergentInsert", "DivergentUpdate", "DeleteVsUpdate")


# What settles a conflict: a side, a row of the caller's own, or None for "not settled".
Settled = Choice | Row | None
Resolver = Choice | Mapping[str, Choice] | Callable[[Conflict], Settled] | None


def settle(resolver: Resolver, conflict: Conflict) -> Settled:
    """What the caller wants done about a conflict between rows.

    A mapping names conflicts as `table_key/id`, with `*` for all others.
    """
    if resolver is None:
        return None
    if callable(resolver):
        return resolver(conflict)
    if isinstance(resolver, Mapping):
        return resolver.get(f"{conflict.table_key}/{conflict.row_id}", resolver.get("*"))
    return resolver


def of_violation(violation: ConstraintViolation, table_keys: Mapping[str, str]) -> Conflict:
    """A broken rule of the merged whole as a conflict."""
    kind: ConflictKind = "ValueConstraintViolation"
    for error, name in _KINDS:
        if isinstance(violation, error):
            kind = name
    table_key = table_keys.get(violation.type_name, violation.type_name)
    return Conflict(kind, table_key, violation.row_id or "", violation.message)


_KINDS: tuple[tuple[type[ConstraintViolation], ConflictKind], ...] = (
    (OrphanEdge, "OrphanEdge"),
    (UniqueViolation, "UniqueViolation"),
    (CardinalityViolation, "CardinalityViolation"),
)
