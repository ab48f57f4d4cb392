"""Making a graph: one of several initialisers wins, a dead one leaves nothing in the way, and others lose nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from manifest import works
from manifest.graphs import (
    AUTHOR,
    AUTHORS,
    FILES,
    PAPER,
    WROTE,
    at,
    chain,
    create,
    manifest_rows,
    publish_next,
    reopen,
    tree,
)
from omnigraph.errors import (
    AlreadyInitialized,
    GraphUnavailable,
    IncompleteGraph,
    InitializationClaimed,
    NotAGraph,
    ObjectExists,
    OmniGraphError,
    StoreError,
)
from omnigraph.manifest.graph_manifest import open_stores
from omnigraph.manifest.layout import INIT_LEASE
from omnigraph.storage.objects.lease import LeaseRecord, Owner
from omnigraph.world import REAL

if TYPE_CHECKING:
    from pathlib import Path

    from manifest.hands import Hands

# Claim, three schema files, three tables, the manifest, its configuration, the claim's removal.
STEPS = 11


def require_a_whole_graph(uri: str) -> None:
    graph = reopen(uri)
    assert set(graph.snapshot().tables) == {AUTHOR, PAPER, WROTE}
    assert len(manifest_rows(graph)) == 8
    for entry in graph.snapshot():
        assert graph.stores.tables.open(entry.pin).count_rows() == 0
    assert {name: graph.stores.objects.read(name) for name in FILES} == FILES
    publish_next(graph)
    assert len(chain(reopen(uri))) == 2


def names_of(uri: str) -> set[str]:
    """Everything at a place, without what is named by chance."""
    names = open_stores(at(uri), REAL).objects.list_names()
    return {name for name in names if "/data/" not in name and "/_transactions/" not in name}


def without_manifest(names: set[str]) -> set[str]:
    return {name for name in names if not name.startswith("__manifest/")}


def test_a_second_init_is_refused_and_changes_nothing(graph_uri: str) -> None:
    create(graph_uri)
    before = names_of(graph_uri)
    with pytest.raises(AlreadyInitialized, match=r"graph\.omni"):
        create(graph_uri)
    assert names_of(graph_uri) == before
    require_a_whole_graph(graph_uri)


def test_of_initialisers_that_race_one_wins_and_the_losers_are_told_why(graph_uri: str, hands: Hands) -> None:
    outcomes = hands.all_at_once([(works.init_dying, (graph_uri, "")) for _ in range(4)])
    assert sum(each.succeeded for each in outcomes) == 1
    losers = [each.error for each in outcomes if not each.succeeded]
    assert all(isinstance(each, AlreadyInitialized | InitializationClaimed) for each in losers), losers
    assert not open_stores(at(graph_uri), REAL).objects.exists(INIT_LEASE)
    require_a_whole_graph(graph_uri)


@pytest.mark.crash
@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_killed_at_any_step_it_is_openable_or_can_be_made_again(tmp_path: Path, hands: Hands, step: int) -> None:
    whole = str(tmp_path / "whole")
    create(whole)
    uri = str(tmp_path / "graph.omni")
    assert hands.run(works.init_dying, uri, f"store.write=kill@{step}").killed
    _make_again_unless_whole(uri)
    assert without_manifest(names_of(uri)) - {INIT_LEASE} == without_manifest(names_of(whole))
    require_a_whole_graph(uri)


def test_there_are_no_more_steps_than_are_tested(tmp_path: Path, hands: Hands) -> None:
    assert hands.run(works.init_dying, str(tmp_path / "g"), f"store.write=kill@{STEPS + 1}").succeeded


@pytest.mark.crash
@pytest.mark.parametrize("point", ["init.claimed=kill", "init.before_manifest=kill"])
def test_killed_at_a_named_point_it_can_be_made_again(graph_uri: str, hands: Hands, point: str) -> None:
    assert hands.run(works.init_dying, graph_uri, point).killed
    with pytest.raises(IncompleteGraph, match="init again"):
        reopen(graph_uri)
    create(graph_uri)
    require_a_whole_graph(graph_uri)


@pytest.mark.crash
@pytest.mark.parametrize("step", [1, 40, 80])
def test_killed_while_the_store_is_being_probed_it_can_be_made_again(tmp_path: Path, hands: Hands, step: int) -> None:
    uri = str(tmp_path / "graph.omni")
    assert hands.run(works.init, uri, failpoints=f"store.write=kill@{step}").killed
    with pytest.raises(NotAGraph):
        reopen(uri)
    create(uri)
    require_a_whole_graph(uri)


@pytest.mark.crash
@pytest.mark.parametrize("step", [3, 6, 8])
def test_a_successor_that_is_killed_while_it_clears_up_leaves_it_to_the_next(
    tmp_path: Path, hands: Hands, step: int
) -> None:
    uri = str(tmp_path / "graph.omni")
    assert hands.run(works.init_dying, uri, "init.before_manifest=kill").killed
    assert hands.run(works.init_dying, uri, f"store.write=kill@{step}").killed
    create(uri)
    require_a_whole_graph(uri)


def _make_again_unless_whole(uri: str) -> None:
    try:
        reopen(uri)
    except (IncompleteGraph, NotAGraph):
        create(uri)
    else:
        with pytest.raises(AlreadyInitialized):
            create(uri)


@pytest.mark.parametrize("step", range(2, STEPS))
def test_a_failure_at_any_step_leaves_nothing_or_a_graph(tmp_path: Path, hands: Hands, step: int) -> None:
    """The process lives on: it clears up after itself at once."""
    uri = str(tmp_path / "graph.omni")
    outcome = hands.run(works.init_dying, uri, f"store.write=raise@{step}")
    assert isinstance(outcome.error, OSError | OmniGraphError), outcome
    left = names_of(uri)
    if left == without_manifest(left):
        assert left == set()
        create(uri)
    require_a_whole_graph(uri)


# -- what belongs to others --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["nodes/readme.txt", f"{AUTHORS}/_versions/1.manifest", "edges/x/y", "_schema.pg", "_schema.ir.json"],
)
def test_what_looks_like_a_part_of_a_graph_is_refused_and_untouched(tmp_path: Path, name: str) -> None:
    root = tmp_path / "mine"
    theirs = root / name
    theirs.parent.mkdir(parents=True)
    theirs.write_bytes(b"precious")
    before = tree(root)
    with pytest.raises(IncompleteGraph, match="another location") as caught:
        create(str(root))
    assert name.split("/")[0] in str(caught.value)
    assert tree(root) == before


def test_a_damaged_graph_that_lost_its_manifest_keeps_its_tables(tmp_path: Path) -> None:
    root = tmp_path / "graph.omni"
    create(str(root))
    (root / "__manifest").rename(tmp_path / "elsewhere")
    before = tree(root)
    with pytest.raises(IncompleteGraph):
        create(str(root))
    assert tree(root) == before


def test_foreign_content_that_appears_while_claiming_is_untouched_too(tmp_path: Path, hands: Hands) -> None:
    root = tmp_path / "graph.omni"
    child = hands.start(works.init_dying, str(root), "init.claimed=delay:2")
    child.go()
    while not (root / INIT_LEASE).exists():
        REAL.sleep(0.01)
    theirs = root / "nodes" / "mine.txt"
    theirs.parent.mkdir()
    theirs.write_text("precious")
    assert isinstance(child.outcome().error, IncompleteGraph)
    assert theirs.read_text() == "precious"
    assert not (root / INIT_LEASE).exists()


def test_other_files_beside_a_graph_do_no_harm(graph_uri: str) -> None:
    objects = open_stores(at(graph_uri), REAL).objects
    objects.write("notes/readme.txt", b"mine")
    create(graph_uri)
    assert objects.read("notes/readme.txt") == b"mine"
    require_a_whole_graph(graph_uri)


# -- claims ------------------------------------------------------------------------------------------------------------


def claim_by_hand(uri: str, *, host: str, seconds: float) -> None:
    owner = Owner("01J0000000000000000000TEST", host, "1:0")
    claim = LeaseRecord(owner, REAL.now_us() + int(seconds * 1_000_000), "init", seconds=seconds)
    open_stores(at(uri), REAL).objects.create(INIT_LEASE, claim.encode())


def test_a_dead_process_of_this_host_is_succeeded_at_once(graph_uri: str) -> None:
    claim_by_hand(graph_uri, host=REAL.host(), seconds=300)
    create(graph_uri)
    require_a_whole_graph(graph_uri)


def test_a_claim_from_another_host_is_respected_until_it_runs_out(graph_uri: str) -> None:
    claim_by_hand(graph_uri, host="elsewhere", seconds=300)
    with pytest.raises(InitializationClaimed) as caught:
        create(graph_uri)
    assert caught.value.attempt_id == "01J0000000000000000000TEST"
    assert "elsewhere" in str(caught.value)
    objects = open_stores(at(graph_uri), REAL).objects
    assert objects.list_names() == [INIT_LEASE]
    objects.delete(INIT_LEASE)
    claim_by_hand(graph_uri, host="elsewhere", seconds=0.1)
    REAL.sleep(2.5 if graph_uri.startswith("s3") else 0.3)
    create(graph_uri)
    require_a_whole_graph(graph_uri)


def test_a_claim_is_respected_for_a_while_beyond_its_time(tmp_path: Path) -> None:
    """Stores stamp with whole seconds, and their servers may differ by some."""
    uri = str(tmp_path / "g")
    claim_by_hand(uri, host="elsewhere", seconds=8)
    REAL.sleep(8.5)
    with pytest.raises(InitializationClaimed):
        create(uri)


def test_a_claim_that_nobody_can_read_is_taken_over(graph_uri: str) -> None:
    open_stores(at(graph_uri), REAL).objects.create(INIT_LEASE, b"\x00 not json")
    create(graph_uri)
    require_a_whole_graph(graph_uri)


def test_an_initialiser_that_lost_its_claim_makes_no_graph_and_deletes_nothing(tmp_path: Path, hands: Hands) -> None:
    """Suspended for so long that another took over: its late clean-up must not hit the other's files."""
    uri = str(tmp_path / "graph.omni")
    late = hands.start(works.init_dying, uri, "init.before_manifest=delay:3")
    late.go()
    objects = open_stores(at(uri), REAL).objects
    while not objects.exists(AUTHORS):
        REAL.sleep(0.01)
    objects.delete(INIT_LEASE)
    claim_by_hand(uri, host="elsewhere", seconds=300)
    outcome = late.outcome()
    assert isinstance(outcome.error, InitializationClaimed), outcome
    assert set(FILES) <= set(objects.list_names())
    assert objects.exists(INIT_LEASE)


def test_every_refusal_of_init_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises((StoreError, GraphUnavailable, ObjectExists)) as caught:
        create(str(tmp_path / "file"))
    assert "file" in str(caught.value)
    assert tree(tmp_path) == {"file": b"not a directory"}
