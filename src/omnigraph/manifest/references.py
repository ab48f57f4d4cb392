"""The branches and tags that a table has, by the reference files that make them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from omnigraph.errors import NotFound, ObjectNotFound, StoreError
from omnigraph.manifest.layout import MANIFEST, physical_branch
from omnigraph.store.lance_errors import lance_errors

if TYPE_CHECKING:
    from omnigraph.store.objects import ControlStore, ObjectInfo
    from omnigraph.store.tables import Table

References = dict[str, dict[str, Any]]
ATTEMPTS = 20


def branch_references(main: Table) -> References:
    """Every branch by name. Lance lists the files, then reads each, and fails when one is deleted between."""
    for _ in range(ATTEMPTS - 1):
        try:
            return _list(main)
        except NotFound:
            continue
    return _list(main)


def _list(main: Table) -> References:
    with lance_errors(f"listing branches of {main.path}"):
        return dict(main.dataset.branches.list())


class ReferredVersions:
    """The versions of one line of `__manifest` that branches, or tags made with Lance, stand on.

    A reference file is read once: while its tag is the same, so is what it says.
    """

    def __init__(self, branch: str, incarnation: str | None) -> None:
        self._branch = physical_branch(branch)
        self._incarnation = incarnation
        self._known: dict[tuple[str, str | None], frozenset[int]] = {}

    def read(self, objects: ControlStore) -> frozenset[int]:
        """What is referred to now."""
        found = [each for each in objects.list(f"{MANIFEST}/_refs") if each.path.endswith(".json")]
        self._known = {(each.path, each.e_tag): self._versions(objects, each) for each in found}
        return frozenset().union(*self._known.values())

    def _versions(self, objects: ControlStore, reference: ObjectInfo) -> frozenset[int]:
        known = self._known.get((reference.path, reference.e_tag))
        if known is not None and reference.e_tag is not None:
            return known
        try:
            says: dict[str, Any] = json.loads(objects.read(reference.path))
            return self._of_tag(says) if "/tags/" in reference.path else self._of_branch(says)
        except ObjectNotFound:
            return frozenset()
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise StoreError(
                f"{reference.path} does not say what it stands on ({error!r}): nothing is collected beside it.",
                location=reference.path,
            ) from error

    def _of_tag(self, says: dict[str, Any]) -> frozenset[int]:
        return frozenset({int(says["version"])} if says.get("branch") == self._branch else ())

    def _of_branch(self, says: dict[str, Any]) -> frozenset[int]:
        """The way from main to a branch is in its identifier: also what it has through a parent that is gone."""
        way = says["identifier"]["version_mapping"]
        mine = [] if self._incarnation is None else json.loads(self._incarnation)["version_mapping"]
        depth = len(mine)
        through = {int(way[depth][0])} if way[:depth] == mine and len(way) > depth else set()
        direct = {int(says["parentVersion"])} if says.get("parentBranch") == self._branch else set()
        return frozenset(through | direct)
