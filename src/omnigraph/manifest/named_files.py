"""Which files each version of a manifest names, noted as this process makes or reads the versions.

A collection of old versions has to know what the versions that stay need. Reading their version files would cost
requests for each; a process that publishes has had all of it in its hands. Only files below the line's own directory
are noted: what a branch has inherited lies with its parent, which keeps it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from lance import LanceFragment

    from omnigraph.store.tables import Table

# More than a graph ever lists; where old versions are never collected, notes must not grow for ever.
MOST_NOTES = 2_000

Names = frozenset[str]


def names_in(table: Table) -> Names:
    """The files that a version names, below the directory of its line."""
    return frozenset(name for each in table.dataset.get_fragments() for name in _files(each))


class NamedFiles:
    """The notes of one line, by version. The line's lock guards them."""

    def __init__(self) -> None:
        self._by_version: OrderedDict[int, Names] = OrderedDict()
        self._pieces: dict[int, tuple[str, ...]] = {}
        self._newest: int | None = None
        self._seen: tuple[int, list[LanceFragment]] | None = None

    def see(self, version: int, fragments: list[LanceFragment]) -> None:
        """Note what a version names, if it is ever asked for: readers see many, and collect none."""
        self._seen = version, fragments

    def note(self, version: int, fragments: list[LanceFragment]) -> None:
        """Note what a publish of this process names: it changes no piece, so only new numbers are looked at."""
        self._look()
        self._note(version, fragments, self._pieces if self._newest == version - 1 else {})

    def _look(self) -> None:
        if self._seen is not None:
            (version, fragments), self._seen = self._seen, None
            self._note(version, fragments, {})

    def _note(self, version: int, fragments: list[LanceFragment], known: dict[int, tuple[str, ...]]) -> None:
        numbered = {each.fragment_id: each for each in fragments}
        self._pieces = {number: known[number] if number in known else _files(each) for number, each in numbered.items()}
        self._newest = version
        self.add(version, frozenset(name for files in self._pieces.values() for name in files))

    def add(self, version: int, names: Names) -> None:
        """Note what was read of a version."""
        self._by_version[version] = names
        while len(self._by_version) > MOST_NOTES:
            self._by_version.popitem(last=False)

    def of(self, version: int) -> Names | None:
        """What a version names, if this process knows it."""
        self._look()
        return self._by_version.get(version)

    def take_all_but(self, staying: Collection[int]) -> set[str]:
        """Forget the versions that are no more; the files that they named, as far as it is known."""
        self._look()
        gone = [each for each in self._by_version if each not in staying]
        return {name for each in gone for name in self._by_version.pop(each)}


def _files(fragment: LanceFragment) -> tuple[str, ...]:
    facts = fragment.metadata
    names = [f"data/{each.path}" for each in facts.files if each.base_id is None]
    removed = facts.deletion_file
    if removed is not None and removed.base_id is None:
        names.append(str(fragment.deletion_file()))
    return tuple(names)
