"""Cases over a wire that fails, several at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crash.suspension.scene import Lane
from crash.suspension.stage import Stage
from crash.wire.play import WireCase, play_over_wire, requests_of, wire_cases

if TYPE_CHECKING:
    from pathlib import Path

    from crash.suspension.cases import Case, Verdict
    from crash.zygote import Zygote


class WireStage(Stage):
    """Lanes in a bucket of the server at `upstream`."""

    def __init__(self, uri: str, folder: Path, zygote: Zygote, upstream: str) -> None:
        super().__init__(uri, folder, zygote)
        self._upstream = upstream
        self._quiet = Lane(f"{uri}-quiet/graph.omni")

    def cases(self, operation: str) -> list[Case]:
        """All cases of an operation: its requests are counted in peace, and one more is tried."""
        requests = requests_of(operation, self._quiet, self.serial, self.zygote, self._upstream)
        return list(wire_cases(operation, requests + 1))

    def play_at(self, case: Case, lane: Lane) -> Verdict:
        """Play one case."""
        assert isinstance(case, WireCase)
        return play_over_wire(case, lane, self.serial, self.zygote, self._upstream)
