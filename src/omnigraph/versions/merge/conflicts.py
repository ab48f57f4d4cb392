"""Where two branches disagree, and who decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
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

# A merge that is refused lists so many conflicts in full, and counts the others.
MOST_LISTED = 10_000

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


@dataclass
class Listed:
    """Conflicts as they are found: the first `most` of them, and how many more there were. None lists all."""

    most: int | None = MOST_LISTED
    conflicts: list[Conflict] = field(default_factory=list)
    more: int = 0

    def add(self, found: Iterable[Conflict], more: int = 0) -> None:
        """Take some, and the number of others that nobody has listed."""
        for each in found:
            if self.most is None or len(self.conflicts) < self.most:
                self.conflicts.append(each)
            else:
                self.more += 1
        self.more += more

    def __bool__(self) -> bool:
        return bool(self.conflicts)


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
