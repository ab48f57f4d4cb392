"""Several cases at a time, each at a place of its own: they mostly wait for leases."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from crash.graph_copies import neighbour
from crash.suspension import work
from crash.suspension.cases import Case, Tally, Verdict, cases_of
from crash.suspension.operations import OPERATIONS, VICTIM
from crash.suspension.play import play
from crash.suspension.scene import Lane, Serial
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from crash.suspension.look import Seen
    from crash.suspension.work import Answer
    from crash.zygote import Zygote

LANES = 4


class Stage:
    """Lanes below a place, and a folder on the disk where the serial orders are worked out."""

    def __init__(self, uri: str, folder: Path, zygote: Zygote, lanes: int = LANES) -> None:
        self.zygote = zygote
        self._on_disk = Lane(str(folder / "serial" / "graph.omni"))
        self.serial = _Locked(self._on_disk)
        self._free: queue.Queue[Lane] = queue.Queue()
        for number in range(lanes):
            self._free.put(Lane(f"{neighbour(uri, f'lane-{number}')}/graph.omni"))
        self.lanes = lanes

    def cases(self, operation: str) -> list[Case]:
        """All cases of an operation: its durable steps are counted in peace, on a disk, and one more is tried."""
        self._on_disk.reset(drift=operation == "repair")
        branch = OPERATIONS[operation].branch
        steps, told = self.zygote.run(work.steps_of, self._on_disk.uri, VICTIM, operation, branch).value
        assert told.is_done, f"{operation} fails in peace: {told}"
        return cases_of(operation, steps + 1)

    def play(self, cases: Iterable[Case], seconds: float = 86_400.0) -> Tally:
        """Play cases until all are played or the time is over."""
        tally = Tally()
        end = REAL.monotonic() + seconds
        with ThreadPoolExecutor(self.lanes) as pool:
            for _ in pool.map(lambda case: self._play(case, tally, end), cases):
                pass
        return tally

    def _play(self, case: Case, tally: Tally, end: float) -> None:
        if REAL.monotonic() > end:
            return
        lane = self._free.get()
        try:
            tally.verdicts.append(self.play_at(case, lane))
        finally:
            self._free.put(lane)

    def play_at(self, case: Case, lane: Lane) -> Verdict:
        """Play one case."""
        return play(case, lane, self.serial, self.zygote)


class _Locked(Serial):
    """Orders are worked out one at a time."""

    def __init__(self, lane: Lane) -> None:
        super().__init__(lane)
        self._lock = threading.Lock()

    def after(self, order: Sequence[tuple[str, str]], branch: str) -> tuple[Seen, dict[str, Answer]]:
        with self._lock:
            return super().after(order, branch)
