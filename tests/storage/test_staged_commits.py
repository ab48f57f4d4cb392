"""Whose commit a version is, and that a change whose answer was lost has landed once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from lance import LanceDataset

from omnigraph import failpoints
from omnigraph.errors import CommitOutcomeUnknown
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.tables.immediate import create_branch
from omnigraph.storage.tables.staging import OPERATION_PROPERTY, commit_staged, find_transaction, stage_append
from omnigraph.storage.tables.table import Pin, Table, TableStore
from omnigraph.world import REAL, World
from storage.every_type import PATH, fresh, ids, made, open_store, raw, small
from storage.lossy_proxy import Loss, LossyProxy
from storage.writers_of_tables import WRITERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from servers.seaweed import Seaweed


@pytest.fixture
def lossy_acknowledgements() -> Iterator[None]:
    """The answer to the next table commit of this process is lost after the version has landed."""
    failpoints.arm("table.committed=lost")
    yield
    failpoints.arm("")


def test_the_operation_that_committed_a_version_can_be_read_from_it(graph_uri: str) -> None:
    store = open_store(graph_uri)
    table = made(store, small("a", "b"))
    for stage in (WRITERS["append"], WRITERS["upsert"], WRITERS["delete"], WRITERS["compact"], WRITERS["overwrite"]):
        staged = stage(table)
        table = commit_staged(staged, operation_id=f"op-{table.version}").table
        told_by_lance = raw(store).read_transaction(table.version)
        assert told_by_lance.transaction_properties[OPERATION_PROPERTY] == f"op-{table.version - 1}"
        assert told_by_lance.uuid == staged.uuid


def test_a_transaction_is_found_after_a_rebase_and_over_compacted_and_indexed_history(graph_uri: str) -> None:
    store = open_store(graph_uri)
    table = made(store, small("a"))
    mine = stage_append(table, small("mine"))
    for name in ("b", "c", "d"):
        commit_staged(stage_append(store.open_newest(PATH), small(name)))
    dataset = raw(store)
    dataset.create_scalar_index("id", "BTREE")
    dataset.optimize.compact_files()
    landed = commit_staged(mine)
    commit_staged(stage_append(landed.table, small("later")))
    assert find_transaction(table, mine.uuid, after=1) == landed.version
    assert find_transaction(table, mine.uuid, after=landed.version) is None
    assert find_transaction(table, "00000000-0000-0000-0000-000000000000", after=0) is None


def test_a_transaction_is_not_found_in_versions_that_were_collected(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    table = made(store, small("a"))
    mine = stage_append(table, small("mine"))
    commit_staged(mine)
    for name in ("b", "c"):
        newest = commit_staged(stage_append(store.open_newest(PATH), small(name))).table
    raw(store).cleanup_old_versions(retain_versions=1)
    assert find_transaction(newest, mine.uuid, after=1) is None


@pytest.mark.usefixtures("lossy_acknowledgements")
@pytest.mark.parametrize("change", ["append", "upsert", "delete", "overwrite", "compact", "index", "restore"])
def test_a_lost_acknowledgement_is_settled_by_looking(graph_uri: str, change: str) -> None:
    store = open_store(graph_uri)
    failpoints.arm("")
    table = commit_staged(stage_append(made(store, small("a")), small("b"))).table
    failpoints.arm("table.committed=lost")
    staged = WRITERS[change](table)
    landed = commit_staged(staged, operation_id="mine")
    assert (landed.version, landed.contiguous, landed.table.version) == (3, True, 3)
    assert fresh(table, store).version == 3
    assert ids(landed.table) == ids(fresh(table, store))
    assert commit_staged(stage_append(landed.table, small("next"))).contiguous


@pytest.mark.usefixtures("lossy_acknowledgements")
def test_a_lost_acknowledgement_on_a_branch_is_settled_there(graph_uri: str) -> None:
    store = open_store(graph_uri)
    table = made(store, small("a"))
    create_branch(table, "x")
    landed = commit_staged(stage_append(store.open_newest(PATH, "x"), small("b")))
    assert landed.table.pin == Pin(PATH, 2, "x")
    assert ids(commit_staged(stage_append(landed.table, small("c"))).table) == ["a", "b", "c"]
    assert ids(fresh(table, store)) == ["a"]


@pytest.mark.usefixtures("lossy_acknowledgements")
def test_a_lost_acknowledgement_over_a_foreign_commit_is_not_contiguous(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    table = made(store, small("a"))
    mine = stage_append(table, small("mine"))
    LanceDataset.commit(raw(store), stage_append(table, small("theirs")).transaction)
    landed = commit_staged(mine)
    assert (landed.version, landed.contiguous) == (3, False)


@pytest.mark.s3
@pytest.mark.parametrize("losses", [["cut"], ["500"], ["cut", "500", "cut"]])
def test_an_answer_lost_on_the_network_lands_once(s3_server: Seaweed, losses: list[Loss]) -> None:
    with LossyProxy(s3_server.endpoint) as proxy:
        store, table = _behind(proxy, s3_server, "".join(losses))
        proxy.losses = list(losses)
        landed = commit_staged(stage_append(table, small("b")), operation_id="mine")
        assert not proxy.losses
        assert (landed.version, landed.contiguous) == (2, True)
        assert ids(fresh_behind(store)) == ["a", "b"]


@pytest.mark.s3
def test_an_answer_lost_together_with_the_store_is_an_unknown_outcome(s3_server: Seaweed) -> None:
    with LossyProxy(s3_server.endpoint) as proxy:
        store, table = _behind(proxy, s3_server, "dead", retries=1)
        proxy.losses, proxy.dead_after_losses = ["cut"], True
        staged = stage_append(table, small("b"))
        with pytest.raises(CommitOutcomeUnknown) as caught:
            commit_staged(staged)
        assert caught.value.transaction == staged.uuid
        proxy.dead = False
        assert find_transaction(table, staged.uuid, after=1) == 2
        assert ids(fresh_behind(store)) == ["a", "b"]


def _behind(proxy: LossyProxy, server: Seaweed, name: str, *, retries: int = 4) -> tuple[TableStore, Table]:
    world = World({**server.environment, "AWS_ENDPOINT_URL_S3": proxy.endpoint})
    impatient = {"client_max_retries": str(retries), "client_retry_timeout": str(retries)}
    store = TableStore(parse_location(f"s3://{server.bucket}/lossy/{name}", world, impatient), REAL)
    return store, made(store, small("a"))


def fresh_behind(store: TableStore) -> Table:
    """The newest version, without anything that the store's own session remembers."""
    return TableStore(store.location, REAL).open_newest(PATH)
