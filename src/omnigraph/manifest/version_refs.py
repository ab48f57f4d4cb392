"""What keeps versions of a manifest alive: the files that each version references, and the branches and tags on it.

Garbage collection has to know what the remaining versions need. Reading their version files would cost requests for
each, but a process that publishes has seen all of it: `NamedFiles` records the files as this process makes or reads the
versions. Only files below the branch's own directory are recorded: what a branch inherited is in its parent's
directory, which keeps it. `ReferredVersions` reads branches and tags from their reference files. `VersionRanges` are
sets of version numbers as ranges, such as `1-57,60`, which are small when the set is dense.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.errors import NotFound, ObjectNotFound, StoreError
from omnigraph.manifest.layout import MANIFEST, physical_branch
from omnigraph.storage.lance.paths import data_file, is_tag_reference, references_dir
from omnigraph.storage.tables import immediate

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from lance import FragmentMetadata

    from omnigraph.storage.objects.store import ObjectInfo, ObjectStore
    from omnigraph.storage.tables.table import Table

# More than a graph ever lists. Where old versions are never collected, the records must not grow without bound.
MAX_RECORDED_VERSIONS = 2_000

Names = frozenset[str]


def names_in(table: Table) -> Names:
    """The files that a version references, below the directory of its branch."""
    return frozenset(name for each in table.fragments() for name in _files(each))


class NamedFiles:
    """The files that versions of one branch manifest reference. Guarded by the branch manifest's lock."""

    def __init__(self) -> None:
        self._by_version: OrderedDict[int, Names] = OrderedDict()
        self._fragments: dict[int, tuple[str, ...]] = {}
        self._newest: int | None = None
        self._seen: Table | None = None

    def see(self, table: Table) -> None:
        """Record a version lazily: readers see many versions, and collect none."""
        self._seen = table

    def record(self, table: Table) -> None:
        """Record a version published by this process: existing fragments are unchanged, so only new ones are read."""
        self._record_seen()
        self._record(table, self._fragments if self._newest == table.version - 1 else {})

    def _record_seen(self) -> None:
        if self._seen is not None:
            table, self._seen = self._seen, None
            self._record(table, {})

    def _record(self, table: Table, cached: dict[int, tuple[str, ...]]) -> None:
        self._fragments = {
            fragment_id: cached[fragment_id] if fragment_id in cached else _files(table.fragment(fragment_id))
            for fragment_id in table.fragment_ids()
        }
        self._newest = table.version
        self.add(table.version, frozenset(name for files in self._fragments.values() for name in files))

    def add(self, version: int, names: Names) -> None:
        """Record the files of a version that was read."""
        self._by_version[version] = names
        while len(self._by_version) > MAX_RECORDED_VERSIONS:
            self._by_version.popitem(last=False)

    def of(self, version: int) -> Names | None:
        """The files that a version references; None if this process has not seen the version."""
        self._record_seen()
        return self._by_version.get(version)

    def drop_all_but(self, staying: Collection[int]) -> set[str]:
        """Drop the versions that no longer exist; return the files that they referenced, as far as recorded."""
        self._record_seen()
        deleted = [each for each in self._by_version if each not in staying]
        return {name for each in deleted for name in self._by_version.pop(each)}


def _files(fragment: FragmentMetadata) -> tuple[str, ...]:
    names = [data_file("", each.path) for each in fragment.files if each.base_id is None]
    deletion_file = fragment.deletion_file
    if deletion_file is not None and deletion_file.base_id is None:
        names.append(str(deletion_file.path(fragment.id)))
    return tuple(names)


References = dict[str, dict[str, Any]]
ATTEMPTS = 20


def branch_references(main: Table) -> References:
    """Every branch by name. Lance lists the files, then reads each, and fails if one is deleted in between: retry."""
    for _ in range(ATTEMPTS - 1):
        try:
            return immediate.branch_references(main)
        except NotFound:
            continue
    return immediate.branch_references(main)


class ReferredVersions:
    """The versions of one branch of `__manifest` that branches, or tags made with Lance, were created from.

    A reference file is read once: while its ETag is unchanged, so is its content.
    """

    def __init__(self, branch: str, incarnation: str | None) -> None:
        self._branch = physical_branch(branch)
        self._incarnation = incarnation
        self._cached: dict[tuple[str, str | None], frozenset[int]] = {}

    def read(self, objects: ObjectStore) -> frozenset[int]:
        """The versions that are referred to now."""
        found = [each for each in objects.list(references_dir(MANIFEST)) if each.path.endswith(".json")]
        self._cached = {(each.path, each.e_tag): self._versions(objects, each) for each in found}
        return frozenset().union(*self._cached.values())

    def _versions(self, objects: ObjectStore, reference: ObjectInfo) -> frozenset[int]:
        cached = self._cached.get((reference.path, reference.e_tag))
        if cached is not None and reference.e_tag is not None:
            return cached
        try:
            reference_fields: dict[str, Any] = json.loads(objects.read(reference.path))
            return (
                self._of_tag(reference_fields)
                if is_tag_reference(reference.path)
                else self._of_branch(reference_fields)
            )
        except ObjectNotFound:
            return frozenset()
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise StoreError(
                f"{reference.path} does not say what it stands on ({error!r}): nothing is collected beside it.",
                location=reference.path,
            ) from error

    def _of_tag(self, reference_fields: dict[str, Any]) -> frozenset[int]:
        return frozenset({int(reference_fields["version"])} if reference_fields.get("branch") == self._branch else ())

    def _of_branch(self, reference_fields: dict[str, Any]) -> frozenset[int]:
        """A branch's identifier lists its ancestry from main, including what it inherits through a deleted parent."""
        ancestry = reference_fields["identifier"]["version_mapping"]
        mine = [] if self._incarnation is None else json.loads(self._incarnation)["version_mapping"]
        depth = len(mine)
        through = {int(ancestry[depth][0])} if ancestry[:depth] == mine and len(ancestry) > depth else set()
        direct = (
            {int(reference_fields["parentVersion"])} if reference_fields.get("parentBranch") == self._branch else set()
        )
        return frozenset(through | direct)


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
        for range_text in text.split(",") if text else ():
            found = _RUN.fullmatch(range_text)
            if found is None or int(found[2] or found[1]) < int(found[1]):
                raise ValueError(f"{range_text!r} is no range of versions")
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
