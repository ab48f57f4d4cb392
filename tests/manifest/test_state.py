"""Which rows make up a snapshot, and that every snapshot of the past stays readable whatever upkeep did meanwhile."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from manifest.earlier_release import publish_as_before
from manifest.graphs import (
    AUTHOR,
    EAGER,
    PAPER,
    SCHEMAS,
    WROTE,
    chain,
    create,
    dataset_of,
    publish_next,
    reopen,
    request,
    version,
)
from manifest.old_graphs import forget_creation
from omnigraph.errors import ManifestCorrupt, NotFound
from omnigraph.manifest.layout import MAIN, MANIFEST, physical_branch
from omnigraph.manifest.rows import SCHEMA
from omnigraph.storage.tables.staging import commit_staged, stage_append

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.snapshot import Snapshot

State = dict[str, tuple[int, str | None]]


@pytest.fixture
def graph(tmp_path: Path) -> GraphManifest:
    return create(str(tmp_path / "g"))


def told(snapshot: Snapshot) -> State:
    return {entry.table_key: (entry.version, entry.branch) for entry in snapshot}


def slip_in(graph: GraphManifest, **row: object) -> None:
    """Append a row past the publisher, as another program might."""
    table = graph.stores.tables.open_newest(MANIFEST)
    commit_staged(stage_append(table, pa.Table.from_pylist([{"table_key": "", **row}], schema=SCHEMA)))


def test_a_tombstone_hides_every_version_up_to_it(graph: GraphManifest) -> None:
    graph.publish(request(version(PAPER, 5)))
    graph.publish(request(drops=[PAPER]))
    assert set(graph.snapshot().tables) == {AUTHOR, WROTE}
    with pytest.raises(NotFound, match=PAPER):
        _ = graph.snapshot()[PAPER]


def test_a_table_that_comes_back_is_seen_again_and_the_gap_stays_in_the_past(graph: GraphManifest) -> None:
    gone = graph.publish(request(drops=[PAPER])).commit.id
    back = graph.publish(request(version(PAPER, 9))).commit.id
    assert PAPER not in graph.snapshot_of(gone).tables
    assert graph.snapshot_of(back)[PAPER].version == graph.snapshot()[PAPER].version == 9


def test_tables_come_in_the_order_of_their_keys(graph: GraphManifest) -> None:
    graph.publish(request(version("node:Aardvark", 1), version("edge:Zoo", 1)))
    assert list(graph.snapshot().tables) == sorted(graph.snapshot().tables)


def test_rows_of_a_later_releases_kind_are_passed_over(graph: GraphManifest, tmp_path: Path) -> None:
    before = told(graph.snapshot())
    slip_in(graph, object_id="graph_weather:main", object_type="graph_weather", metadata="sunny", table_version=9)
    assert told(graph.snapshot()) == told(reopen(str(tmp_path / "g")).snapshot()) == before
    publish_next(graph)
    assert len(chain(graph)) == 2


def test_a_version_without_a_registration_is_a_corrupt_manifest(graph: GraphManifest, tmp_path: Path) -> None:
    slip_in(graph, object_id="node:X$1", object_type="table_version", table_key="node:X", table_version=1, row_count=0)
    with pytest.raises(ManifestCorrupt, match="node:X"):
        graph.snapshot()
    with pytest.raises(ManifestCorrupt, match="node:X"):
        reopen(str(tmp_path / "g")).snapshot()


@pytest.mark.parametrize(
    "row",
    [
        {"object_id": "node:X", "object_type": "table", "table_key": "node:X"},
        {"object_id": "node:X$1", "object_type": "table_version", "table_key": "node:X"},
        {"object_id": "C", "object_type": "graph_commit", "table_version": 3},
        {"object_id": "C", "object_type": "graph_commit", "table_version": 3, "metadata": "{}"},
        {"object_id": "C", "object_type": "graph_commit", "table_version": 3, "metadata": "not json"},
        {"object_id": "graph_head:main", "object_type": "graph_head", "metadata": "[]"},
    ],
    ids=["no location", "no version", "no metadata", "no time", "no json", "no head"],
)
def test_a_row_that_misses_what_the_format_requires_is_named(
    graph: GraphManifest, tmp_path: Path, row: dict[str, object]
) -> None:
    slip_in(graph, **row)
    with pytest.raises(ManifestCorrupt, match=str(row["object_id"]).replace("$", r"\$")):
        reopen(str(tmp_path / "g"))


def test_a_snapshot_does_not_change_when_the_graph_does(graph: GraphManifest) -> None:
    held = graph.snapshot()
    before = told(held)
    publish_next(graph)
    assert told(held) == before


# -- every snapshot of the past, under a random history with eager upkeep ----------------------------------------------


@dataclass
class Model:
    """What the graph should say: per branch its newest state, per commit the state it published."""

    states: dict[str, State] = field(default_factory=lambda: {MAIN: dict.fromkeys(SCHEMAS, (1, None))})
    used: dict[str, int] = field(default_factory=dict)
    commits: dict[str, State] = field(default_factory=dict)
    branch_commits: dict[str, list[str]] = field(default_factory=lambda: {MAIN: []})

    def next_version(self, table_key: str, step: int) -> int:
        """Beyond every version and tombstone that any branch ever had: branches share no numbers this way."""
        self.used[table_key] = self.used.get(table_key, 2) + 1 + step
        return self.used[table_key]


KEYS = (AUTHOR, PAPER, WROTE, "node:Extra")
changes = st.dictionaries(st.sampled_from(KEYS), st.one_of(st.none(), st.integers(0, 2)), min_size=1, max_size=3)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(0, 3), changes),
        st.tuples(st.just("publish"), st.integers(0, 3), changes),
        st.tuples(st.just("branch"), st.integers(0, 3), st.integers(0, 30)),
        st.tuples(st.just("reopen"), st.just(0), st.just(0)),
        st.tuples(st.just("catch up"), st.just(0), st.just(0)),
    ),
    min_size=8,
    max_size=30,
)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps)
def test_every_commits_snapshot_is_what_it_published_for_every_kind_of_reader(
    script: list[tuple[str, int, object]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        uri = f"{folder}/g"
        create(uri)
        writer, follower, model = reopen(uri, manifest_policy=EAGER), reopen(uri), Model()
        for kind, which, detail in script:
            branch = sorted(model.states)[which % len(model.states)]
            if kind == "publish":
                assert isinstance(detail, dict)
                _publish(writer, model, branch, detail)
            elif kind == "branch":
                assert isinstance(detail, int)
                _branch(writer, model, branch, detail)
            elif kind == "reopen":
                writer = reopen(uri, manifest_policy=EAGER)
            else:
                for name in model.states:
                    assert told(follower.snapshot(name)) == model.states[name]
        for reader in (writer, follower, reopen(uri, read_only=True)):
            _compare(reader, model)


def _publish(graph: GraphManifest, model: Model, branch: str, detail: dict[str, int | None]) -> None:
    state = dict(model.states[branch])
    new, drops = [], []
    for key, step in detail.items():
        if step is None and key in state:
            drops.append(key)
            model.used[key] = max(model.used.get(key, 2), state.pop(key)[0] + 1)
        elif step is not None:
            state[key] = (model.next_version(key, step), physical_branch(branch))
            new.append(version(key, state[key][0], branch=state[key][1]))
    commit = graph.publish(request(*new, drops=drops), branch=branch).commit.id
    model.states[branch] = model.commits[commit] = state
    model.branch_commits[branch].append(commit)


def _branch(graph: GraphManifest, model: Model, source: str, which: int) -> None:
    name = f"b{len(model.states)}"
    seen = model.branch_commits[source]
    if not seen:
        graph.create_branch(name, source=source)
        model.states[name], model.branch_commits[name] = dict(model.states[source]), []
        return
    chosen = which % len(seen)
    graph.create_branch(name, commit_id=seen[chosen])
    model.states[name], model.branch_commits[name] = dict(model.commits[seen[chosen]]), seen[: chosen + 1]


def _compare(graph: GraphManifest, model: Model) -> None:
    for branch, state in model.states.items():
        assert told(graph.snapshot(branch)) == state
        assert [commit.id for commit in graph.lineage(branch).first_parents()][:-1][::-1] == model.branch_commits[
            branch
        ]
    for commit, state in model.commits.items():
        assert told(graph.snapshot_of(commit)) == state


def test_a_follower_sees_every_publish_of_an_eager_tidier_in_turn(tmp_path: Path) -> None:
    uri = str(tmp_path / "g")
    create(uri)
    writer, follower = reopen(uri, manifest_policy=EAGER), reopen(uri)
    for turn in range(40):
        done = publish_next(writer, (AUTHOR, PAPER)[turn % 2])
        assert told(follower.snapshot()) == told(done.snapshot)
        assert follower.lineage().head == done.commit
    assert dataset_of(writer).version > 50, "there were compactions between the publishes"


def test_rows_as_old_releases_left_them_are_dated_by_their_last_change(tmp_path: Path) -> None:
    """Lance up to 6.0.1 said 1 for the creation of every row that a keyed write inserted."""
    uri = str(tmp_path / "g")
    graph = create(uri)
    published = [publish_as_before(graph, AUTHOR) for _ in range(4)]
    graph.snapshot()
    expected = [told(graph.snapshot_of(each)) for each in published]
    forget_creation(f"{uri}/{MANIFEST}")
    old = reopen(uri, manifest_policy=EAGER)
    assert [told(old.snapshot_of(each)) for each in published] == expected
    for _ in range(12):
        publish_next(old)
    tidied = reopen(uri)
    assert [told(tidied.snapshot_of(each)) for each in published] == expected
