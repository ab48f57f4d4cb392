"""Decides what a schema change on main means for the other branches.

A change that leaves every stored column as it is costs a branch nothing: branches that have main's schema make the same
change, each with a commit of its own. A change that rewrites, moves or drops a table is made on main alone: the
branches keep their schema, are read and written in it, and are merged across it (`history/merge/cross_schema.py`). Only
a permanent drop has to wait until nobody can read the data any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import SchemaChangeRefused
from omnigraph.manifest.layout import MAIN, table_path
from omnigraph.manifest.tags import list_tags

if TYPE_CHECKING:
    from omnigraph.language.evolution import MigrationPlan, TableChange
    from omnigraph.manifest.graph_manifest import GraphManifest

CODE = "OG-LK-101"


def branches_in_step(manifest: GraphManifest) -> tuple[str, ...]:
    """The other branches that have main's schema."""
    schema = manifest.fresh_branch(MAIN).schema
    others = [each.name for each in manifest.branches() if each.name != MAIN]
    return tuple(name for name in others if manifest.fresh_branch(name).schema == schema)


def leaves_tables_alone(plan: MigrationPlan) -> bool:
    """Whether every existing table stays as it is, so that other branches can make the same change."""
    return all(each.action in ("keep", "create") for each in plan.tables)


def purged(plan: MigrationPlan) -> tuple[str, ...]:
    """The tables whose earlier versions are deleted with the change, because they hold what was dropped permanently."""
    return tuple(table_path(_now(each)) for each in plan.tables if _forgets(each))


def blocked(manifest: GraphManifest, plan: MigrationPlan) -> SchemaChangeRefused | None:
    """Why existing branches or tags prevent the plan; None when they do not."""
    if not purged(plan):
        return None
    others = tuple(each.name for each in manifest.branches() if each.name != MAIN)
    if others:
        return _refusal(f"{_branches(others)} may still read what is to be dropped for good. Delete the branch first.")
    tags = [each.name for each in list_tags(manifest.stores)]
    if tags:
        return _refusal(
            f"the tag {tags[0]!r} keeps a commit that may have what is to be dropped for good. Delete the tag first, "
            "or drop softly, without allowing data loss."
        )
    return None


def _forgets(change: TableChange) -> bool:
    return change.mode == "hard" and (change.action == "drop" or bool(change.dropped_columns))


def _now(change: TableChange) -> str:
    """The table that holds the earlier versions; a renamed type has left them under its old name."""
    return change.from_table_key or change.table_key


def _refusal(reason: str) -> SchemaChangeRefused:
    return SchemaChangeRefused(f"[{CODE}] {reason} Nothing was changed.", change_code=CODE)


def _branches(names: tuple[str, ...]) -> str:
    return f"branch {names[0]!r}" if len(names) == 1 else f"each of the branches {', '.join(names)}"
