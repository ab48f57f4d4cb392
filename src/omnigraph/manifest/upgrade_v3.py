"""Upgrade from v3 to v4: copies the lineage from two datasets beside the manifest into its rows.

It runs per branch, at the first write. The old datasets stay in place; nothing reads them once the stamp is 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.failpoints import reach
from omnigraph.manifest.commit_graph import rank, read_legacy_commits
from omnigraph.manifest.row_versions import read_rows
from omnigraph.manifest.rows import KEY, GraphHead, Row, encode
from omnigraph.storage.tables.immediate import upsert_rows_by_key

if TYPE_CHECKING:
    from omnigraph.manifest.branch_manifest import BranchManifest


def apply(manifest: BranchManifest) -> None:
    """Write one row per commit and one head row, in one commit, unless another migrator has done so already."""
    if any(row[1] == "graph_commit" for row in read_rows(manifest.table)):
        return
    reach("migration.legacy_open")
    commits = read_legacy_commits(manifest.stores.tables, manifest.branch)
    if not commits:
        return
    head = max(commits, key=rank)
    rows: list[Row] = [*commits, GraphHead(manifest.branch, head.id, head.parent)]
    manifest.adopt(upsert_rows_by_key(manifest.table, encode(rows), key=KEY))
