"""The last fragment of the manifest: each publish replaces it by a longer one, also beside earlier releases."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lance import LanceDataset
from lance.commit import CommitConflictError

from manifest.earlier_release import publish_as_before, stage_as_before
from manifest.graphs import (
    AUTHOR,
    EAGER,
    NEVER,
    PAPER,
    blueprint_of,
    chain,
    create,
    dataset_of,
    manifest_rows,
    publish_next,
    reopen,
    request,
    version,
)
from omnigraph.counters import counting
from omnigraph.manifest import active_fragment as tails
from omnigraph.manifest import publisher
from omnigraph.manifest.layout import MANIFEST
from omnigraph.storage.tables.immediate import set_config

if TYPE_CHECKING:
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.storage.tables.staging import Committed, Staged


def sizes(graph: GraphManifest, branch: str = "main") -> list[int]:
    """How many rows each fragment has, removed ones too."""
    return [each.metadata.physical_rows for each in dataset_of(graph, branch).get_fragments()]


def require_whole(graph: GraphManifest, *, states: dict[str, int]) -> None:
    """One line of history, no key twice, and every commit shows the state that it made."""
    fresh = reopen(graph.stores.uri)
    assert len(chain(fresh)) == len(states) + 1
    assert {each: fresh.snapshot_of(each)[AUTHOR].version for each in states} == states
    manifest_rows(fresh)
    ids = dataset_of(fresh).to_table(columns=["_rowid"]).column(0).to_pylist()
    assert len(set(ids)) == len(ids)
    dataset_of(fresh).validate()


def publish(graph: GraphManifest, states: dict[str, int]) -> None:
    done = publish_next(graph)
    states[done.commit.id] = done.snapshot[AUTHOR].version


def test_a_publish_writes_one_data_file_and_makes_the_tail_longer(graph: GraphManifest, uri: str) -> None:
    for number in range(1, 6):
        before = set(Path(uri, MANIFEST, "data").iterdir())
        publish_next(graph)
        assert len(set(Path(uri, MANIFEST, "data").iterdir()) - before) == 1
        assert sizes(graph) == [7, 2 * number + 1]


def test_every_publish_gives_the_tail_another_number(graph: GraphManifest) -> None:
    """Earlier releases go by numbers to see what they have not read yet."""
    seen = set()
    for _ in range(6):
        publish_next(graph)
        seen.add(dataset_of(graph).get_fragments()[-1].fragment_id)
    assert len(seen) == 6


def test_a_process_reads_a_tail_that_another_has_written_once(graph: GraphManifest, uri: str) -> None:
    other = reopen(uri)
    publish_next(graph)
    with counting() as counts:
        other.publish(request(version(PAPER, 2), expected_versions={PAPER: 1}))
    assert (counts.table_scans, counts.table_commits) == (1, 2), "one lost, one landed"
    graph.snapshot()
    with counting() as counts:
        graph.publish(request(version(PAPER, 3)))
    assert (counts.table_scans, counts.table_commits) == (0, 1)
    assert len(chain(other)) == 4


def test_two_that_publish_in_turns_and_tidy_keep_every_state(graph: GraphManifest, uri: str) -> None:
    states: dict[str, int] = {}
    first, second = reopen(uri, manifest_policy=EAGER), reopen(uri)
    for _ in range(12):
        publish(first, states)
        publish(second, states)
    require_whole(graph, states=states)


def test_a_wide_publish_is_laid_down_at_once(tmp_path: Path) -> None:
    graph = create(str(tmp_path / "wide"), blueprint_of(300))
    graph.publish(request(*(version(f"node:T{each}", 2) for each in range(300))))
    assert sizes(graph) == [601, 301, 1]
    graph.publish(request(version("node:T0", 3)))
    assert sizes(graph) == [601, 301, 3]


def test_a_tail_that_nobody_lays_down_does_not_grow_for_ever(tmp_path: Path) -> None:
    graph = create(str(tmp_path / "wide"), blueprint_of(400))
    careless = reopen(graph.stores.uri, manifest_policy=NEVER)
    for number in range(2, 6):
        careless.publish(request(*(version(f"node:T{each}", number) for each in range(400))))
    assert sizes(graph) == [801, 1204, 402]
    assert dataset_of(graph).count_rows() == len(manifest_rows(reopen(graph.stores.uri))) == 801 + 4 * 401 + 1


def test_the_head_row_gets_a_new_id_when_its_own_is_far_from_the_others(
    graph: GraphManifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tails, "MAX_ROW_ID_DISTANCE", 6)
    states: dict[str, int] = {}
    places = set()
    for _ in range(10):
        publish(graph, states)
        active = graph.branch().active_fragment()
        assert active is not None
        places.add(active.head_offset)
    assert len(places) > 1, "the head row is not always the first one"
    require_whole(graph, states=states)


def test_a_publish_that_slid_over_a_metadata_commit_keeps_its_true_age(graph: GraphManifest, uri: str) -> None:
    """Its commit row says a version that it did not become: the order of rows would tell a wrong age."""
    states: dict[str, int] = {}
    publish(graph, states)
    set_config(reopen(uri).branch().table, {"set.by": "somebody"})
    new = version(AUTHOR, 3)
    slid = graph.publish(request(new)).commit
    states[slid.id] = 3
    assert dataset_of(graph).version == slid.manifest_version + 1
    for _ in range(5):
        publish(reopen(uri, manifest_policy=EAGER), states)
    require_whole(graph, states=states)


def test_a_publish_that_slept_while_others_published_and_collected_is_tried_again(
    graph: GraphManifest, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it wants to remove is gone by then, and so are the versions in which that happened."""
    commit, slept = publisher.commit_staged, []

    def commit_late(staged: Staged) -> Committed:
        if not slept:
            slept.append(staged)
            busy = reopen(uri, manifest_policy=EAGER)
            for _ in range(12):
                publish_next(busy)
            assert staged.read_version + 1 not in [each["version"] for each in dataset_of(graph).versions()]
        return commit(staged)

    publish_next(graph)
    monkeypatch.setattr(publisher, "commit_staged", commit_late)
    done = graph.publish(request(version(PAPER, 2)))
    assert len(chain(reopen(uri))) == 15
    assert done.commit.id == chain(reopen(uri))[0]
    manifest_rows(reopen(uri))


def test_the_second_publish_of_a_branch_is_one_commit_as_well(graph: GraphManifest) -> None:
    graph.create_branch("b")
    publish_next(graph, branch="b")
    with counting() as counts:
        graph.publish(request(version(PAPER, 2, branch="b")), branch="b")
    assert counts.table_commits == 1
    assert len(chain(graph, "b")) == 3


# -- beside earlier releases -------------------------------------------------------------------------------------------


def test_an_earlier_release_and_this_one_publish_in_turns(graph: GraphManifest, uri: str) -> None:
    states: dict[str, int] = {}
    busy = reopen(uri, manifest_policy=EAGER)
    for number in range(2, 22, 2):
        states[publish_as_before(graph, AUTHOR)] = number
        publish(busy, states)
    require_whole(graph, states=states)


def test_a_publish_of_an_earlier_release_from_an_old_state_is_refused(graph: GraphManifest) -> None:
    publish_next(graph)
    dataset, staged, _ = stage_as_before(graph, AUTHOR)
    publish_next(graph)
    with pytest.raises(CommitConflictError):
        LanceDataset.commit(dataset, staged, max_retries=0)
    assert len(chain(reopen(graph.stores.uri))) == 3


def test_a_publish_that_an_earlier_release_has_overtaken_is_tried_again(graph: GraphManifest) -> None:
    publish_next(graph)
    publish_as_before(graph, AUTHOR)
    done = graph.publish(request(version(PAPER, 2)))
    assert done.attempts == 2
    assert len(chain(reopen(graph.stores.uri))) == 4


def test_an_earlier_release_that_lays_fragments_down_beside_a_tail_loses_nothing(
    graph: GraphManifest, uri: str
) -> None:
    """It joins everything but the lone head row, the old tail with it."""
    states: dict[str, int] = {}
    for _ in range(4):
        publish(graph, states)
    states[publish_as_before(graph, AUTHOR)] = 6
    dataset_of(graph).optimize.compact_files(target_rows_per_fragment=1_000)
    for _ in range(6):
        publish(reopen(uri, manifest_policy=EAGER), states)
    require_whole(graph, states=states)
