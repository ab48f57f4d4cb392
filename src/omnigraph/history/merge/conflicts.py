"""Lists the conflicts of a merge, and asks the caller's resolver to settle them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from omnigraph.errors import CardinalityViolation, ConstraintViolation, OrphanEdge, UniqueViolation
from omnigraph.errors.commits import Conflict, ConflictKind, Row

# A refused merge lists this many conflicts in full, and counts the others.
MOST_LISTED = 10_000

Choice = Literal["ours", "theirs"]


@dataclass
class ConflictList:
    """Conflicts as they are found: the first `most` of them, and the number of all others. None lists all."""

    most: int | None = MOST_LISTED
    conflicts: list[Conflict] = field(default_factory=list)
    more: int = 0

    def add(self, found: Iterable[Conflict], more: int = 0) -> None:
        """Add conflicts, and a number of others that are not listed anywhere."""
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
    """How the caller's resolver settles a conflict between rows.

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
    """A violation of the merged state as a conflict."""
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
