"""The differing rows of a table's states, on disk, so that a merge sees those of one piece at a time."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.versions.delta import TableDelta, net
from omnigraph.versions.merge.large.parted import Parted, pieces_of, total_sizes
from omnigraph.versions.merge.large.streams import Read, differing_reads, rows_schema
from omnigraph.world import REAL, World
from omnigraph.write.row_shape import put_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    import pyarrow as pa

    from omnigraph.manifest.snapshot import TableEntry
    from omnigraph.store.tables import Pin, TableStore

    # The pins that a pair of states is at; None stands for a table that is not there.
    Pair = tuple[Pin | None, Pin]


class Place:
    """A directory among the temporary files, made when it is needed; gone at the end.

    Its name tells whose it is: what processes of this machine have left that were killed, the next one removes.
    """

    def __init__(self, world: World = REAL) -> None:
        self._world = world
        self._root: Path | None = None
        self._made = 0

    def folder(self) -> Path:
        """A new, empty directory."""
        if self._root is None:
            _remove_left_behind(self._world)
            name = f"{_of_this_machine(self._world)}{_named(self._world.process())}~"
            self._root = Path(tempfile.mkdtemp(prefix=name))
        self._made += 1
        folder = self._root / str(self._made)
        folder.mkdir()
        return folder

    def clear(self) -> None:
        """Forget what lies there."""
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)
            self._root = None

    def __enter__(self) -> Place:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()


def _remove_left_behind(world: World) -> None:
    mine = _of_this_machine(world)
    for each in Path(tempfile.gettempdir()).iterdir():
        process = each.name.removeprefix(mine).partition("~")[0].replace(".", ":")
        if each.name.startswith(mine) and not world.is_running(process):
            shutil.rmtree(each, ignore_errors=True)


def _of_this_machine(world: World) -> str:
    """How the names begin. Numbers of processes mean nothing elsewhere, such as in a container beside this one."""
    return f"omnigraph-merge~{_named(world.host())}~"


def _named(text: str) -> str:
    return text.replace(":", ".")


@dataclass
class WaitingRows:
    """What differs between the pairs of states that one table is merged from; all with the same parts."""

    tables: TableStore
    folder: Path
    parts: int
    _held: dict[Pair, tuple[Parted, Parted]] = field(default_factory=dict)

    def bring(self, base: TableEntry | None, side: TableEntry) -> None:
        """Read the differing rows of a pair, and lay them down by part."""
        pair = _pair(base, side)
        if pair in self._held or (base is not None and base.pin == side.pin):
            return
        name = str(len(self._held))
        before, after = differing_reads(self.tables, base, side, self.folder)
        self._held[pair] = self._laid(f"{name}-before", base or side, before), self._laid(f"{name}-after", side, after)

    def pieces(self, most: int) -> list[list[int]]:
        """The parts in groups of so many bytes."""
        files = [each for pair in self._held.values() for each in pair]
        return pieces_of(total_sizes(files), most) if files else []

    def piece(self, parts: Sequence[int]) -> PieceOfRows:
        """The rows of some parts."""

        def rows(base: TableEntry | None, side: TableEntry) -> tuple[pa.Table, pa.Table]:
            before, after = self._held[_pair(base, side)]
            return before.read(parts), after.read(parts)

        return PieceOfRows(self.tables, rows)

    def forget(self) -> None:
        """Remove everything from disk."""
        self._held.clear()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _laid(self, name: str, state: TableEntry, reads: Sequence[Read]) -> Parted:
        table = self.tables.open(state.pin)
        made = Parted(self.folder / name, rows_schema(table), self.parts)
        for read in reads:
            for rows in read.batches(table):
                made.add(rows)
        return made


@dataclass(frozen=True)
class PieceOfRows:
    """The rows of one piece, in the place of all rows. `rows` gives those of a pair of states, as `Deltas` has them."""

    tables: TableStore
    rows: Callable[[TableEntry | None, TableEntry], tuple[pa.Table, pa.Table]]

    def delta(self, base: TableEntry | None, side: TableEntry) -> TableDelta:
        """What turned one state of a table into another, as far as this piece goes."""
        if base is not None and base.pin == side.pin:
            return TableDelta(side.table_key, self._nothing(side), self._nothing(side))
        return net(side.table_key, *self.rows(base, side))

    def differing_rows(self, base: TableEntry, side: TableEntry) -> tuple[pa.Table, pa.Table]:
        """The rows among which the changed ones are."""
        return (self._nothing(base), self._nothing(side)) if base.pin == side.pin else self.rows(base, side)

    def _nothing(self, side: TableEntry) -> pa.Table:
        return put_schema(self.tables.open(side.pin).schema).empty_table()


def _pair(base: TableEntry | None, side: TableEntry) -> Pair:
    return None if base is None else base.pin, side.pin
