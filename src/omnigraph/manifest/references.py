"""The branches that a table has, by the reference files that make them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph.errors import NotFound
from omnigraph.store.lance_errors import lance_errors

if TYPE_CHECKING:
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
