"""`VersionRanges`: sets of version numbers as ranges, such as `1-57,60`, which are small when the set is dense."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_RUN = re.compile(r"([0-9]+)(?:-([0-9]+))?")


@dataclass(frozen=True)
class VersionRanges:
    """An immutable set of version numbers. `runs` are inclusive ranges, ascending, with a gap between any two."""

    runs: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, versions: Iterable[int]) -> VersionRanges:
        """The set of these numbers."""
        return cls(_joined((each, each) for each in versions))

    @classmethod
    def parse(cls, text: str) -> VersionRanges:
        """Parse the text form; raises `ValueError`."""
        runs = []
        for part in text.split(",") if text else ():
            found = _RUN.fullmatch(part)
            if found is None or int(found[2] or found[1]) < int(found[1]):
                raise ValueError(f"{part!r} is no range of versions")
            runs.append((int(found[1]), int(found[2] or found[1])))
        return cls(_joined(runs))

    def __str__(self) -> str:
        return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in self.runs)

    def __bool__(self) -> bool:
        return bool(self.runs)

    def __contains__(self, version: int) -> bool:
        at = bisect_right(self.runs, version, key=lambda each: each[0])
        return at > 0 and version <= self.runs[at - 1][1]

    def __iter__(self) -> Iterator[int]:
        for first, last in self.runs:
            yield from range(first, last + 1)

    def __or__(self, other: VersionRanges) -> VersionRanges:
        return VersionRanges(_joined((*self.runs, *other.runs)))

    def __sub__(self, other: VersionRanges) -> VersionRanges:
        found = []
        for first, last in self.runs:
            begin = first
            for taken_first, taken_last in other.runs:
                if begin <= taken_last and taken_first <= last:
                    found.append((begin, taken_first - 1))
                    begin = taken_last + 1
            found.append((begin, last))
        return VersionRanges(tuple(each for each in found if each[0] <= each[1]))


NONE = VersionRanges()


def _joined(runs: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The same numbers, in ranges that neither overlap nor touch."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(runs):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return tuple(found)
