"""Which changes of schema may be made while other branches stand, and what those branches take part in.

A branch shares tables with the one it was made from, and is merged by comparing both with the state that they have in
common. A change that leaves every stored column as it is keeps that possible: the other branches take the same step,
each with a commit of its own. One that rewrites, moves or drops a table would leave them with rows of another shape. A
branch whose schema is another one already keeps it, and stands in nobody's way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import SchemaChangeRefused
from omnigraph.manifest.layout import MAIN, table_path
from omnigraph.manifest.tags import list_tags

if TYPE_CHECKING:
    from omnigraph.language.schema.evolution import MigrationPlan, TableChange
    from omnigraph.manifest.graph_manifest import GraphManifest

CODE = "OG-LK-101"


def branches_in_step(manifest: GraphManifest) -> tuple[str, ...]:
    """The other branches that have main's schema."""
    schema = manifest.fresh_line(MAIN).state.schema
    others = [each.name for each in manifest.branches() if each.name != MAIN]
    return tuple(name for name in others if manifest.fresh_line(name).state.schema == schema)


def blocked(manifest: GraphManifest, plan: MigrationPlan) -> SchemaChangeRefused | None:
    """Why the plan cannot be carried out beside the branches and tags that are there; None when it can."""
    moving = [each for each in plan.tables if each.action not in ("keep", "create")]
    if moving:
        others = branches_in_step(manifest)
        if others:
            tables = ", ".join(each.from_table_key or each.table_key for each in moving)
            return _refusal(
                f"{tables} would be rewritten, and {_branches(others)} has rows of it in the old shape. "
                "Merge or delete the other branches first; or make now only what leaves tables as they are."
            )
    return _blocked_purge(manifest, plan)


def purged(plan: MigrationPlan) -> tuple[str, ...]:
    """The tables whose earlier versions go with the change: what was dropped for good must not be found there."""
    return tuple(table_path(_now(each)) for each in plan.tables if _forgets(each))


def _blocked_purge(manifest: GraphManifest, plan: MigrationPlan) -> SchemaChangeRefused | None:
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
    """The table that holds the earlier versions; a renamed type left them under its old name."""
    return change.from_table_key or change.table_key


def _refusal(reason: str) -> SchemaChangeRefused:
    return SchemaChangeRefused(f"[{CODE}] {reason} Nothing was changed.", change_code=CODE)


def _branches(names: tuple[str, ...]) -> str:
    return f"branch {names[0]!r}" if len(names) == 1 else f"each of the branches {', '.join(names)}"
