"""Merges rows that both sides of a merge changed, column by column; what the values do not decide is a conflict.

No row becomes a Python object while columns are merged. The remaining rows are left to `three_way`, which decides row
by row: entities that one side removed, or that both changed differently. The caller's resolver may resolve conflicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import CardinalityViolation, ConstraintViolation, OrphanEdge, UniqueViolation
from omnigraph.errors.commits import Conflict, ConflictKind, Row
from omnigraph.errors.inputs import InvalidInput, require_choice, suggestion
from omnigraph.history.delta import equal_values
from omnigraph.kernels.arrays import ID

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from omnigraph.history.delta import TableDelta

    Mask = NDArray[np.bool_]

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


# The resolution of a conflict: a side, a row of the caller's own, or None for "not resolved".
Resolution = Choice | Row | None
Resolver = Choice | Mapping[str, Choice] | Callable[[Conflict], Resolution] | None


def require_resolver(resolver: Resolver) -> None:
    """Refuse a resolver that names anything but a side: a misspelt one would leave every conflict unresolved."""
    if resolver is None or callable(resolver):
        return
    for each in resolver.values() if isinstance(resolver, Mapping) else (resolver,):
        require_choice("side", each, get_args(Choice))


def resolve(resolver: Resolver, conflict: Conflict) -> Resolution:
    """How the caller's resolver resolves a conflict between rows.

    A mapping names conflicts as `table_key/id`, with `*` for all others.
    """
    named = resolve_by_name(resolver, conflict)
    return resolver.get("*") if named is None and isinstance(resolver, Mapping) else named


def resolve_by_name(resolver: Resolver, conflict: Conflict) -> Resolution:
    """How the resolver resolves a conflict, without the `*` of a mapping."""
    if resolver is None:
        return None
    if callable(resolver):
        return resolver(conflict)
    return resolver.get(conflict.name) if isinstance(resolver, Mapping) else resolver


def resolved_keys(resolver: Resolver, table_key: str, row_ids: Iterable[str]) -> frozenset[str]:
    """The keys of a mapping that name one of the conflicts, which are rows of one table."""
    if not isinstance(resolver, Mapping):
        return frozenset()
    return frozenset(key for row_id in row_ids if (key := f"{table_key}/{row_id}") in resolver)


def require_all_resolved(resolver: Resolver, resolved: Iterable[str], conflicts: Iterable[Conflict]) -> None:
    """Refuse a mapping with keys that name no conflict: a misspelt one would leave its conflict to `*`."""
    if not isinstance(resolver, Mapping):
        return
    unknown = sorted(set(resolver) - {"*"} - set(resolved))
    if unknown:
        among = [*resolved, *(f"{each.table_key}/{each.row_id}" for each in conflicts)]
        more = f", and {len(unknown) - 1} more keys of resolve" if len(unknown) > 1 else ""
        raise InvalidInput(
            f"resolve names {unknown[0]!r}{more}, and there is no such conflict{suggestion(unknown[0], among)}"
        )


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


@dataclass(frozen=True)
class MergedColumns:
    """Rows to write, and the ids of rows that have to be decided one by one."""

    puts: pa.Table
    undecided: pa.Array[Any]


def merge_columns(
    source: TableDelta, target: TableDelta, contested: pa.Array[Any], *, by_property: bool
) -> MergedColumns:
    """Merge those of the contested rows that both sides have changed, and neither has added or removed."""
    everywhere = _among(contested, _among(source.before_ids, _among(target.after_ids, source.after_ids)))
    base, ours, theirs = (_rows(each, everywhere) for each in (source.before, target.after, source.after))
    if not theirs.num_rows or ours.column_names != theirs.column_names:
        return MergedColumns(source.after.slice(0, 0), contested)
    names = [name for name in theirs.column_names if name != ID]
    takes: dict[str, Mask] = {}
    undecided_rows = np.zeros(theirs.num_rows, dtype=bool)
    for name in names:
        agreed = equal_values(theirs.column(name), ours.column(name))
        if not by_property:
            undecided_rows |= ~agreed
            continue
        unchanged = equal_values(theirs.column(name), base.column(name)) | agreed
        only_theirs = equal_values(ours.column(name), base.column(name))
        takes[name] = ~unchanged & only_theirs
        undecided_rows |= ~unchanged & ~only_theirs
    done = theirs.column(ID).combine_chunks().filter(pa.array(~undecided_rows))
    return MergedColumns(_merged(ours, theirs, takes, ~undecided_rows), _difference(contested, done))


def _merged(ours: pa.Table, theirs: pa.Table, takes: dict[str, Mask], decided: Mask) -> pa.Table:
    """Our rows with the values that only the source has changed; rows without such a value are left out."""
    changed = decided & np.logical_or.reduce([np.zeros(len(decided), dtype=bool), *takes.values()])
    rows = np.flatnonzero(changed)
    columns = []
    for column in theirs.schema:
        indices = np.where(takes[column.name][rows], rows + len(decided), rows) if column.name in takes else rows
        both = pa.chunked_array(
            [*ours.column(column.name).chunks, *theirs.column(column.name).chunks], type=column.type
        )
        columns.append(both.take(indices))
    return pa.table(columns, schema=theirs.schema)


def _rows(table: pa.Table, ids: pa.Array[Any]) -> pa.Table:
    """Some rows of a table that is sorted by id."""
    return table.filter(pc.is_in(table.column(ID), value_set=ids))


def _among(ids: pa.Array[Any], others: pa.Array[Any]) -> pa.Array[Any]:
    return ids.filter(pc.is_in(ids, value_set=others))


def _difference(ids: pa.Array[Any], others: pa.Array[Any]) -> pa.Array[Any]:
    return ids.filter(pc.invert(pc.is_in(ids, value_set=others)))
