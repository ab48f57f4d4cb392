"""Graphs as internal schemas v1, v2 and v3 left them, written with nothing but Lance and the format's description.

Each has a history with actors, a branch, a two-parent commit, and what only its release left behind: `__run__` branches
and run records (v1, v2), stored automatic cleanup (v1, v2), creation versions that are always 1 (v1, v2).
"""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
from lance import FragmentMetadata, LanceDataset, LanceOperation, Transaction
from lance.dataset import AutoCleanupConfig
from lance.fragment import write_fragments

from manifest.graphs import AUTHOR, FILES, PAPER, SCHEMAS, WROTE
from omnigraph.manifest.layout import FORMAT_VERSION_KEY, table_path
from omnigraph.manifest.rows import SCHEMA
from omnigraph.storage.lance.paths import version_file

if TYPE_CHECKING:
    from pathlib import Path

MICROSECOND = dt.timedelta(microseconds=1)
EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - the old datasets store no zone
BEGAN = 1_700_000_000_000_000
RUNS = ("__run__01HF0000000000000000000001", "__run__01HF0000000000000000000002")
MOMENT = pa.timestamp("us")
COMMITS = pa.schema(
    [
        pa.field("graph_commit_id", pa.utf8(), nullable=False),
        pa.field("manifest_branch", pa.utf8()),
        pa.field("manifest_version", pa.uint64(), nullable=False),
        pa.field("parent_commit_id", pa.utf8()),
        pa.field("merged_parent_commit_id", pa.utf8()),
        pa.field("created_at", MOMENT, nullable=False),
    ]
)
ACTORS = pa.schema(
    [
        pa.field("graph_commit_id", pa.utf8(), nullable=False),
        pa.field("actor_id", pa.utf8(), nullable=False),
        pa.field("created_at", MOMENT, nullable=False),
    ]
)
RUN_RECORDS = pa.schema(
    [
        *(pa.field(name, pa.utf8(), nullable=False) for name in ("run_id", "target_branch", "run_branch")),
        pa.field("base_snapshot_id", pa.utf8(), nullable=False),
        pa.field("base_manifest_version", pa.uint64(), nullable=False),
        pa.field("operation_hash", pa.utf8()),
        pa.field("status", pa.utf8(), nullable=False),
        pa.field("published_snapshot_id", pa.utf8()),
        pa.field("created_at", MOMENT, nullable=False),
        pa.field("updated_at", MOMENT, nullable=False),
    ]
)


@dataclass(frozen=True)
class OldCommit:
    """A commit as the old release recorded it, and the table versions that made up the graph then."""

    id: str
    branch: str | None
    manifest_version: int
    created_at: int
    parent: str | None
    merged_parent: str | None
    actor: str | None
    state: dict[str, tuple[int, str | None]]


@dataclass
class OldGraph:
    """An old graph and its true history: per branch the commits that it sees, the oldest first."""

    root: Path
    stamp: int
    history: dict[str, list[OldCommit]] = field(default_factory=dict)
    _clock: int = 0

    @property
    def manifest(self) -> str:
        return str(self.root / "__manifest")

    @property
    def commits(self) -> str:
        return str(self.root / "_graph_commits.lance")

    @property
    def actors(self) -> str:
        return str(self.root / "_graph_commit_actors.lance")

    def publish(
        self,
        changes: dict[str, int],
        *,
        branch: str | None = None,
        actor: str | None = None,
        merged_parent: str | None = None,
    ) -> OldCommit:
        """Two writes, as the old releases made them: the table versions, then the commit."""
        manifest = lance.dataset(_on(self.manifest, branch))
        rows = [_version_row(self.root, key, version, branch) for key, version in changes.items()]
        merge = manifest.merge_insert("object_id").when_matched_update_all().when_not_matched_insert_all()
        merge.conflict_retries(0).execute(pa.Table.from_pylist(rows, schema=_schema(self.stamp)))
        seen = self.history[branch or "main"]
        state = {**seen[-1].state, **{key: (version, branch) for key, version in changes.items()}}
        return self._record(branch, manifest.version, seen[-1].id, merged_parent, actor, state)

    def branch(self, name: str) -> None:
        """On both datasets, in lock-step."""
        for path in (self.manifest, self.commits):
            lance.dataset(path).create_branch(name)
        self.history[name] = list(self.history["main"])

    def _record(
        self,
        branch: str | None,
        version: int,
        parent: str | None,
        merged: str | None,
        actor: str | None,
        state: dict[str, tuple[int, str | None]],
    ) -> OldCommit:
        self._clock += 1
        identity = f"01HF{self._clock:022d}"
        commit = OldCommit(identity, branch, version, BEGAN + self._clock * 1_000_001, parent, merged, actor, state)
        moment = EPOCH + commit.created_at * MICROSECOND
        _append(_on(self.commits, branch), COMMITS, [identity, branch, version, parent, merged, moment])
        if actor is not None:
            _append(self.actors, ACTORS, [identity, actor, moment])
        self.history.setdefault(branch or "main", []).append(commit)
        return commit


def build(root: Path, stamp: int) -> OldGraph:
    """An old graph with five commits on main, one of them a merge, and two of its own on the branch `feature`."""
    graph = OldGraph(root, stamp)
    init(graph)
    graph.publish({AUTHOR: 4}, actor="act-ann")
    graph.branch("feature")
    on_feature = graph.publish({AUTHOR: 5, WROTE: 2}, branch="feature", actor="act-bob")
    graph.publish({PAPER: 3})
    graph.publish({AUTHOR: 6}, actor="act-ann", merged_parent=on_feature.id)
    graph.publish({PAPER: 4}, branch="feature")
    graph.publish({WROTE: 2, PAPER: 5}, actor="act-né")
    if stamp < 3:
        _leave_runs(graph)
        for branch in (None, "feature"):
            forget_creation(_on(graph.manifest, branch))
    return graph


def init(graph: OldGraph) -> None:
    """What the old release's own init left: no lineage rows, a genesis commit in the dataset beside."""
    graph.root.mkdir(parents=True)
    for name, data in FILES.items():
        (graph.root / name).write_bytes(data)
    cleanup = AutoCleanupConfig(interval=20, older_than_seconds=14 * 86_400) if graph.stamp < 3 else None
    for key, schema in SCHEMAS.items():
        _create(str(graph.root / table_path(key)), schema.empty_table(), cleanup)
    rows: list[dict[str, Any]] = []
    for key in SCHEMAS:
        rows += [
            {"object_id": key, "object_type": "table", "location": table_path(key), "table_key": key},
            _version_row(graph.root, key, 1, None, rows=0),
        ]
    manifest = _create(graph.manifest, pa.Table.from_pylist(rows, schema=_schema(graph.stamp)), cleanup)
    manifest.update_config({"table_version_management": "true"})
    if graph.stamp > 1:
        manifest.update_schema_metadata({FORMAT_VERSION_KEY: str(graph.stamp)})
    _create(graph.commits, COMMITS.empty_table(), cleanup)
    _create(graph.actors, ACTORS.empty_table(), cleanup)
    graph._record(None, manifest.version, None, None, None, dict.fromkeys(SCHEMAS, (1, None)))


def _schema(stamp: int) -> pa.Schema:
    """In v1 no column was the primary key."""
    if stamp > 1:
        return SCHEMA
    return pa.schema([pa.field(each.name, each.type, each.nullable) for each in SCHEMA])


def _leave_runs(graph: OldGraph) -> None:
    for name in RUNS:
        lance.dataset(graph.manifest).create_branch(name)
        if graph.stamp == 1:
            lance.dataset(graph.commits).create_branch(name)
    if graph.stamp == 1:
        _create(str(graph.root / "_graph_runs.lance"), RUN_RECORDS.empty_table(), None)
        _create(str(graph.root / "_graph_run_actors.lance"), ACTORS.empty_table(), None)


def _version_row(root: Path, key: str, version: int, branch: str | None, rows: int | None = None) -> dict[str, Any]:
    path = str(root / version_file(table_path(key), branch, version)).lstrip("/")
    metadata = {"manifest_path": path, "manifest_size": 800, "e_tag": None, "naming_scheme": "V2"}
    return {
        "object_id": f"{key}${version:020d}",
        "object_type": "table_version",
        "metadata": json.dumps(metadata, separators=(",", ":")),
        "table_key": key,
        "table_version": version,
        "table_branch": branch,
        "row_count": version * 10 if rows is None else rows,
    }


def _on(path: str, branch: str | None) -> str:
    return path if branch is None else f"{path}/tree/{branch}"


def _create(path: str, rows: pa.Table, cleanup: AutoCleanupConfig | None) -> LanceDataset:
    return lance.write_dataset(
        rows,
        path,
        mode="create",
        data_storage_version="2.2",
        enable_stable_row_ids=True,
        auto_cleanup_options=cleanup,
    )


def _append(path: str, schema: pa.Schema, values: list[Any]) -> None:
    row = dict(zip(schema.names, values, strict=True))
    lance.write_dataset(pa.Table.from_pylist([row], schema=schema), lance.dataset(path), mode="append")


def forget_creation(uri: str) -> None:
    """Make every row say that version 1 created it, as Lance up to 6.0.1 did for rows that a keyed write inserted."""
    dataset = lance.dataset(uri)
    groups = []
    for fragment in dataset.get_fragments():
        rows = fragment.to_table()
        (copy,) = write_fragments(rows, dataset)
        known = fragment.metadata.to_json()
        # One run of all rows, of version 1, as Lance encodes it.
        run = [10, 4, 10, 2, 16, rows.num_rows, 16, 1]
        told = {
            **copy.to_json(),
            "row_id_meta": known["row_id_meta"],
            "created_at_version_meta": {"inline": [10, len(run), *run]},
            "last_updated_at_version_meta": known["last_updated_at_version_meta"],
        }
        groups.append(LanceOperation.RewriteGroup([fragment.metadata], [FragmentMetadata.from_json(json.dumps(told))]))
    LanceDataset.commit(dataset, Transaction(dataset.version, LanceOperation.Rewrite(groups, [])), max_retries=0)
    ages = lance.dataset(uri).to_table(columns=["_row_created_at_version"])["_row_created_at_version"]
    assert set(ages.to_pylist()) == {1}
