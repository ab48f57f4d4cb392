"""Nobody undoes the work of a process that lives. Who is silent for too long loses it, and does no damage later."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from omnigraph.errors import CommitRejected, Contention
from omnigraph.storage.objects.lease import LEASE, Owner, patience
from omnigraph.transaction.commit.protocol import commit
from omnigraph.transaction.intents import queue
from omnigraph.transaction.intents.sidecar import Sidecar, TablePin
from omnigraph.transaction.intents.sidecar_json import encode
from omnigraph.transaction.recovery.audit import recoveries
from omnigraph.transaction.recovery.classify import Decision
from omnigraph.transaction.recovery.outcome import sweep
from omnigraph.world import REAL
from transaction.recovery import works
from transaction.recovery.hand_made import (
    CITY,
    KNOWS,
    PERSON,
    TABLES,
    add,
    content,
    foreign_append,
    insert,
    late_append,
    late_restore,
    require_settled,
    sidecars,
)
from transaction.recovery.left_behind import leave_behind, standing

if TYPE_CHECKING:
    from crash.zygote import Child, Zygote
    from omnigraph.manifest.graph_manifest import GraphManifest

pytestmark = pytest.mark.crash
SHORT = 1.0


@pytest.fixture
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases of this process last a second."""
    monkeypatch.setenv(LEASE, str(SHORT))


@pytest.mark.parametrize("point", ["commit.armed", "commit.table_landed", "commit.before_publish", "commit.published"])
def test_a_writer_that_pauses_in_the_middle_is_left_alone_and_waited_for(
    graph: GraphManifest, uri: str, zygote: Zygote, point: str
) -> None:
    slow = zygote.start(works.insert, uri, "slow", TABLES, failpoints=f"{point}=delay:1")
    works.wait_for_sidecars(uri, 1, phase="running")
    assert sweep(graph) == {}
    add(graph, CITY)
    assert slow.outcome().succeeded
    assert "slow" in content(graph)[KNOWS]
    assert recoveries(graph.stores) == []
    require_settled(graph)


@pytest.mark.usefixtures("short_leases")
def test_a_lease_is_renewed_while_one_step_takes_longer_than_it(graph: GraphManifest, uri: str, zygote: Zygote) -> None:
    pause = f"commit.table_landed=delay:{3 * SHORT}"
    slow = zygote.start(works.insert_under_short_lease, uri, "slow", TABLES, SHORT, failpoints=pause)
    works.wait_for_sidecars(uri, 1, phase="running")
    before = standing(graph).expires_at
    REAL.sleep(1.5 * SHORT)
    assert sweep(graph) == {}
    now = standing(graph).expires_at
    assert before is not None
    assert now is not None
    assert now > before
    assert slow.outcome().succeeded
    assert recoveries(graph.stores) == []
    require_settled(graph)


def test_a_lease_of_another_machine_is_respected_until_it_runs_out(graph: GraphManifest) -> None:
    """Only a machine itself knows which of its processes live."""
    left = _of_another_machine(graph, seconds=SHORT)
    assert sweep(graph) == {}
    REAL.sleep(patience(SHORT) + 0.1)
    assert sweep(graph) == {left.operation_id: Decision.BACK}
    require_settled(graph)


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_machine_whose_clock_is_wrong_is_left_alone_like_any_other(graph: GraphManifest, hours: int) -> None:
    _of_another_machine(graph, seconds=60, clock_ahead=hours * 3_600)
    assert sweep(graph) == {}


def test_a_process_number_that_is_used_again_is_another_process(graph: GraphManifest) -> None:
    left = _of_another_machine(graph, seconds=30)
    reused = Owner("x", REAL.host(), f"{os.getpid()}:1")
    graph.stores.objects.write(left.path, encode(left.leased(reused, REAL)))
    assert sweep(graph) == {left.operation_id: Decision.BACK}


def test_of_many_that_meet_a_dead_operation_one_recovers_it(graph: GraphManifest, uri: str, zygote: Zygote) -> None:
    for number in range(4):
        assert zygote.run(works.insert, uri, f"{number}", TABLES, failpoints="commit.before_publish=kill").killed
        finders = [zygote.start(works.sweep, uri) for _ in range(6)]
        outcomes = [each.outcome() for each in finders]
        assert all(each.succeeded for each in outcomes)
        assert sum(len(each.value) for each in outcomes) == 1
    assert len(recoveries(graph.stores)) == 4
    assert len(graph.lineage().commits) == 5
    assert len(content(graph)[PERSON]) == 4
    require_settled(graph)


@pytest.mark.usefixtures("short_leases")
def test_a_frozen_writer_whose_work_was_undone_finds_out_and_does_it_again(
    graph: GraphManifest, uri: str, zygote: Zygote
) -> None:
    add(graph, *TABLES)
    before = content(graph)
    zombie = _frozen(graph, uri, zygote, "commit.table_landed=delay:0.5")
    assert list(sweep(graph).values()) == [Decision.BACK]
    assert content(graph) == before
    add(graph, *TABLES)
    expected = content(graph)
    zombie.thaw()
    assert zombie.outcome().succeeded
    assert {key: rows.keys() - {"zombie"} for key, rows in content(graph).items()} == _keys(expected)
    assert all("zombie" in rows for rows in content(graph).values())
    require_settled(graph)
    add(graph, *TABLES)


@pytest.mark.usefixtures("short_leases")
def test_a_frozen_writer_whose_work_was_finished_for_it_succeeds(
    graph: GraphManifest, uri: str, zygote: Zygote
) -> None:
    zombie = _frozen(graph, uri, zygote, "commit.before_publish=delay:0.5")
    assert list(sweep(graph).values()) == [Decision.FORWARD]
    add(graph, *TABLES)
    zombie.thaw()
    outcome = zombie.outcome()
    assert outcome.succeeded, outcome
    assert outcome.value in graph.lineage().commits
    assert content(graph)[KNOWS].keys() >= {"zombie"}
    require_settled(graph)


@pytest.mark.usefixtures("short_leases")
@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize("step", [2, 3, 4])
def test_a_writer_that_is_frozen_after_its_last_look_at_the_lease_meets_the_fence(
    graph: GraphManifest, uri: str, zygote: Zygote, others: int, step: int
) -> None:
    """Frozen between the last look at its lease and the table's commit: Lance refuses the commit."""
    add(graph, *TABLES)
    zombie = _frozen(graph, uri, zygote, f"store.step=delay:0.5@{step}")
    assert list(sweep(graph).values()) == [Decision.BACK]
    for _ in range(others):
        add(graph, *TABLES)
    before = content(graph)
    zombie.thaw()
    assert zombie.outcome().succeeded
    assert {key: rows.keys() - {"zombie"} for key, rows in content(graph).items()} == _keys(before)
    assert all("zombie" in rows for rows in content(graph).values())
    assert [each.kind for each in recoveries(graph.stores)] == ["RolledBack"]
    require_settled(graph)
    add(graph, *TABLES)
    require_settled(graph)


@pytest.mark.usefixtures("short_leases")
@pytest.mark.parametrize("killed", [False, True])
def test_versions_that_land_though_nobody_waits_for_them_are_taken_back_by_the_next_writer(
    graph: GraphManifest, killed: bool
) -> None:
    """The fence was collected, or another recovery's restore slid over it: what is left is ours, and nobody's."""
    add(graph, *TABLES)
    before = content(graph)
    for table_key in TABLES:
        late_append(graph, "zombie", table_key)
        late_restore(graph, table_key, version=1)
        if not killed:
            late_append(graph, "zombie", table_key)
    assert content(graph) == before
    add(graph, *TABLES)
    assert all("zombie" not in rows for rows in content(graph).values())
    assert {key: len(rows) for key, rows in content(graph).items()} == {k: len(v) + 1 for k, v in before.items()}
    require_settled(graph)


def test_versions_of_another_program_stop_writers_of_that_table_only(graph: GraphManifest) -> None:
    add(graph, *TABLES)
    before = content(graph)
    foreign_append(graph, "foreign", PERSON)
    late_append(graph, "zombie", PERSON)
    with pytest.raises(CommitRejected, match="another program"):
        commit(graph, insert("new"))
    assert content(graph) == before
    add(graph, CITY)


@pytest.mark.usefixtures("short_leases")
def test_a_frozen_recovery_that_lost_its_turn_changes_nothing(graph: GraphManifest, uri: str, zygote: Zygote) -> None:
    add(graph, *TABLES)
    assert zygote.run(works.insert, uri, "dead", TABLES, failpoints="commit.table_landed=kill").killed
    pause = "recovery.before_publish=delay:0.5"
    zombie = zygote.start(works.sweep_under_short_lease, uri, SHORT, failpoints=pause)
    _freeze(zombie, graph, restored=True)
    assert list(sweep(graph).values()) == [Decision.BACK]
    add(graph, *TABLES)
    before = content(graph)
    zombie.thaw()
    zombie.outcome()
    assert content(graph) == before
    assert len(recoveries(graph.stores)) == 1
    add(graph, *TABLES)
    require_settled(graph)


def test_waiting_for_a_writer_that_never_ends_is_given_up_with_its_operation(
    graph: GraphManifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "WAIT_SECONDS", 0.2)
    left = _of_another_machine(graph, seconds=3_600)
    with pytest.raises(Contention, match=f"{left.operation_id} holds node:Person"):
        commit(graph, insert("new"))
    assert sidecars(graph) == [left.path]
    add(graph, CITY)


def test_a_writer_of_release_0_8_that_may_live_is_waited_for(
    graph: GraphManifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "WAIT_SECONDS", 0.2)
    leave_behind(graph, "Mutation", {PERSON: 1}, started_at=REAL.now_us())
    with pytest.raises(Contention):
        commit(graph, insert("new"))


def _frozen(graph: GraphManifest, uri: str, zygote: Zygote, pause: str) -> Child:
    """A writer that is frozen at a failpoint until its lease has run out."""
    child = zygote.start(works.insert_under_short_lease, uri, "zombie", TABLES, SHORT, failpoints=pause)
    _freeze(child, graph)
    return child


def _freeze(child: Child, graph: GraphManifest, *, restored: bool = False) -> None:
    works.wait_for_sidecars(graph.stores.uri, 1, phase="running")
    if restored:
        works.wait_until_landed(graph.stores.uri, KNOWS)
    REAL.sleep(0.25)
    child.freeze()
    REAL.sleep(patience(SHORT) + 0.1)


def _keys(found: dict[str, dict[str, object]]) -> dict[str, set[str]]:
    return {key: set(rows) for key, rows in found.items()}


def _of_another_machine(graph: GraphManifest, *, seconds: float, clock_ahead: float = 0) -> Sidecar:
    entry = graph.snapshot()[PERSON]
    pin = TablePin(PERSON, graph.stores.tables.location.child(entry.path), 1, 2)
    left = Sidecar(
        REAL.ulid(),
        REAL.now_us(),
        "Mutation",
        tables=(pin,),
        owner=Owner("x", "another-host", "17:4711"),
        expires_at=REAL.now_us() + int((seconds + clock_ahead) * 1_000_000),
        lease_seconds=seconds,
        phase="running",
    )
    graph.stores.objects.create(left.path, encode(left))
    return left


def test_an_operation_that_could_not_even_be_undone_is_not_held_for_ever(
    graph: GraphManifest, uri: str, zygote: Zygote
) -> None:
    """Interrupted again while it is being undone, by an impatient user. Its process lives on, its lease does not."""
    child = zygote.start(works.interrupted_twice, uri, SHORT)
    assert child.reports() == "interrupted"
    left = standing(graph)
    REAL.sleep(2 * SHORT)
    assert standing(graph) == left
    child.kill()
    assert child.outcome().killed
