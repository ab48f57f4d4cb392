"""Turns the changes of one commit into entity changes: nodes before edges, then by type, then by id.

A position among them is encoded as opaque, checksummed text, valid for one branch of one graph: the cursor of the feed.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import ChangeCursorRejected
from omnigraph.history.delta import TableDelta, table_delta
from omnigraph.kernels.arrays import ID
from omnigraph.kernels.report import Report
from omnigraph.query.result.result import python_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.manifest.snapshot import Snapshot, TableEntry
    from omnigraph.storage.tables.table import TableStore

EntityKind = Literal["node", "edge"]
ChangeOp = Literal["insert", "update", "delete"]
_ROWS_AT_ONCE = 1_000


@dataclass(frozen=True)
class Image:
    """An entity at one commit: its properties, and for an edge the ids of its endpoints."""

    properties: dict[str, Any]
    source: str | None = None
    target: str | None = None


@dataclass(frozen=True, repr=False)
class Change(Report):
    """What one commit did to one entity. `before` is None for an insert, `after` for a delete."""

    commit: GraphCommit
    kind: EntityKind
    type_name: str
    id: str
    op: ChangeOp
    before: Image | None
    after: Image | None

    @property
    def table_key(self) -> str:
        """The table that the entity is in."""
        return f"{self.kind}:{self.type_name}"

    def _summary(self) -> str:
        return f"{self.op} {self.table_key} {self.id} in commit {self.commit.id}"


@dataclass(frozen=True)
class ChangedTable:
    """One table that a commit changed: its states before and after. Small, and can be sent to another process."""

    table_key: str
    base: TableEntry | None
    side: TableEntry | None
    commit: GraphCommit


def delta_of(changed: ChangedTable, tables: TableStore) -> TableDelta:
    """The changed rows of a table, as Arrow."""
    return table_delta(tables, changed.base, changed.side)


@dataclass(frozen=True)
class Only:
    """Which changes are wanted: of some tables, and some operations; None for all."""

    table_keys: frozenset[str] | None = None
    ops: frozenset[ChangeOp] | None = None


EVERYTHING = Only()


class CommitPosition(NamedTuple):
    """A position inside the changes of a commit: everything up to this table and id was returned."""

    table_key: str
    row_id: str

    @property
    def rank(self) -> tuple[bool, str]:
        """The position of its table in the order of tables."""
        return _rank(self.table_key)


@dataclass
class LastDelta:
    """Caches the delta that a reader is in the middle of, so that the next page does not compute it again."""

    _held: dict[tuple[TableEntry | None, TableEntry | None], TableDelta] = field(default_factory=dict)

    def of(self, changed: ChangedTable, tables: TableStore) -> TableDelta:
        """The delta of a changed table; only the last one is cached."""
        key = (changed.base, changed.side)
        if key not in self._held:
            self._held = {key: delta_of(changed, tables)}
        return self._held[key]

    def forget(self) -> None:
        """Drop the cached delta: the reader has finished the commit."""
        self._held = {}


def changed_tables_between(
    before: Snapshot | None, after: Snapshot, commit: GraphCommit, only: Only = EVERYTHING
) -> list[ChangedTable]:
    """The tables that differ between a commit and its parent, in the order in which their changes are returned."""
    old = before.tables if before is not None else {}
    keys = sorted(old.keys() | after.tables.keys(), key=_rank)
    found = []
    for key in keys:
        base, side = old.get(key), after.tables.get(key)
        same = base is not None and side is not None and base.pin == side.pin
        if not same and (only.table_keys is None or key in only.table_keys):
            found.append(ChangedTable(key, base, side, commit))
    return found


def changes_in(
    changed_tables: list[ChangedTable],
    tables: TableStore,
    only: Only,
    after: CommitPosition | None = None,
    last: LastDelta | None = None,
) -> Iterator[Change]:
    """The changes of one commit after a position, one by one; only wanted changes become Python values."""
    held = last if last is not None else LastDelta()
    for changed in changed_tables:
        if after is not None and _rank(changed.table_key) < after.rank:
            continue
        begin = after.row_id if after is not None and changed.table_key == after.table_key else None
        yield from _of_table(changed, held.of(changed, tables), only, begin)
    held.forget()


def _of_table(changed: ChangedTable, delta: TableDelta, only: Only, begin: str | None) -> Iterator[Change]:
    order = _order(delta)
    if begin is not None:
        order = order.filter(pc.greater(order.column(ID), pa.scalar(begin)))
    if only.ops is not None:
        order = order.filter(pc.is_in(order.column("op"), value_set=pa.array(sorted(only.ops))))
    for start in range(0, order.num_rows, _ROWS_AT_ONCE):
        some = order.slice(start, _ROWS_AT_ONCE)
        before, after = _images(delta.before, some.column("before")), _images(delta.after, some.column("after"))
        ids: list[Any] = some.column(ID).to_pylist()
        ops: list[Any] = some.column("op").to_pylist()
        kind: Any
        kind, _, name = changed.table_key.partition(":")
        for at, row_id in enumerate(ids):
            yield Change(changed.commit, kind, name, row_id, ops[at], before[at], after[at])


def _order(delta: TableDelta) -> pa.Table:
    """Every changed id, sorted, with its operation and the row numbers in `before` and `after`."""
    ids = pc.unique(pa.concat_arrays([delta.before_ids, delta.after_ids]))
    ids = ids.take(pc.sort_indices(ids))
    before, after = pc.index_in(ids, value_set=delta.before_ids), pc.index_in(ids, value_set=delta.after_ids)
    ops: Any = pc.if_else(pc.is_null(before), "insert", pc.if_else(pc.is_null(after), "delete", "update"))
    return pa.table({ID: ids, "op": ops, "before": before, "after": after})


def _images(rows: pa.Table, row_numbers: pa.ChunkedArray[Any]) -> list[Image | None]:
    """The rows at these positions as images; None where the position is null."""
    there = iter(python_rows(rows.take(row_numbers.drop_null())))
    return [None if row_number is None else _image(next(there)) for row_number in row_numbers.to_pylist()]


def _image(row: dict[str, Any]) -> Image:
    return Image({name: value for name, value in row.items() if name not in (ID, "src", "dst")}, *_endpoints(row))


def _endpoints(row: dict[str, Any]) -> tuple[str | None, str | None]:
    return row.get("src"), row.get("dst")


def _rank(table_key: str) -> tuple[bool, str]:
    return table_key.startswith("edge:"), table_key


LONGEST = 4_096
_VERSION = 1
_CHECK_BYTES = 8


@dataclass(frozen=True)
class Position:
    """The position after all changes of the commit `after` (None: before the first commit).

    `inside`: also after those changes of the next commit that come up to this table and id. `witness` identifies the
    incarnation of the branch, so that a cursor of a deleted branch is not taken for one of its successor.
    """

    graph: str
    branch: str
    witness: str | None
    after: str | None
    inside: tuple[str, str] | None = None

    def encode(self) -> str:
        """The cursor text."""
        fields = [_VERSION, self.graph, self.branch, self.witness, self.after, self.inside]
        data = json.dumps(fields, separators=(",", ":")).encode()
        return urlsafe_b64encode(data + _check(data)).decode().rstrip("=")

    def require(self, graph: str, branch: str, incarnation: str | None) -> None:
        """Raise unless it is a position on this incarnation of this branch."""
        if self.graph != graph:
            raise ChangeCursorRejected("it is a cursor of another graph. Read a baseline of this one.")
        if self.branch != branch:
            raise ChangeCursorRejected(f"it is a cursor of branch {self.branch!r}, not of {branch!r}.")
        if self.witness != witness_of(incarnation):
            raise ChangeCursorRejected(
                f"branch {branch!r} was deleted and created again since. Read a baseline and continue from its cursor."
            )


def decode(text: str) -> Position:
    """The position that a cursor text encodes, or `ChangeCursorRejected`."""
    if len(text) > LONGEST:
        raise ChangeCursorRejected(f"it is longer than {LONGEST} characters.")
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        data, check = raw[:-_CHECK_BYTES], raw[-_CHECK_BYTES:]
        if not data or check != _check(data):
            raise ValueError("its checksum does not match")
        return _position(json.loads(data))
    except (ValueError, TypeError) as error:
        raise ChangeCursorRejected(
            f"it is damaged, or not a cursor ({error}). Use a cursor exactly as it was returned."
        ) from error


def witness_of(incarnation: str | None) -> str | None:
    """A short hash that identifies the incarnation of a branch; None for main."""
    return None if incarnation is None else sha256(incarnation.encode()).hexdigest()[:16]


def _position(fields: list[Any]) -> Position:
    version, graph, branch, witness, after, inside = fields
    if version != _VERSION:
        raise ValueError(f"it is of version {version}")
    return Position(graph, branch, witness, after, None if inside is None else (inside[0], inside[1]))


def _check(data: bytes) -> bytes:
    return sha256(b"omnigraph/changes/1\0" + data).digest()[:_CHECK_BYTES]
