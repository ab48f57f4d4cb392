"""Staged changes: nothing is visible before the commit, everything after it, and each lands once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from lance import LanceDataset
from lance.fragment import write_fragments

from omnigraph import failpoints
from omnigraph.errors import (
    CommitConflict,
    CommitFailed,
    CommitOutcomeUnknown,
    CommitRejected,
    InvalidInput,
    NotFound,
    ObjectExists,
)
from omnigraph.store.compaction import stage_compaction
from omnigraph.store.filters import All, Compare, Not, equal, one_of
from omnigraph.store.indexes import IndexSpec, stage_indexes
from omnigraph.store.location import parse_location
from omnigraph.store.residual import create_branch
from omnigraph.store.staging import (
    OPERATION_PROPERTY,
    Staged,
    commit_staged,
    create_table,
    find_transaction,
    stage_append,
    stage_change,
    stage_delete,
    stage_delete_ids,
    stage_fragments,
    stage_insert,
    stage_overwrite,
    stage_restore,
    stage_upsert,
)
from omnigraph.store.tables import Pin, Table, TableStore
from omnigraph.world import World
from store.every_type import (
    PATH,
    SCHEMA,
    SMALL,
    contents,
    fresh,
    ids,
    made,
    open_store,
    options,
    raw,
    row_ids,
    rows,
    small,
    told,
)
from store.lossy_proxy import Loss, LossyProxy
from store.racers import RACERS, create

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from servers.seaweed import Seaweed
    from store.racers import Racers


@pytest.fixture
def lossy_acknowledgements() -> Iterator[None]:
    """The answer to the next table commit of this process is lost after the version has landed."""
    failpoints.arm("table.committed=lost")
    yield
    failpoints.arm("")


def on_main_and_on_a_branch(uri: str) -> tuple[TableStore, list[Table]]:
    """One table with rows a, b and c of every type, and a branch of it."""
    store = open_store(uri)
    main = made(store, rows("a", "b", "c"))
    create_branch(main, "x")
    return store, [main, store.open_newest(PATH, "x")]


NEW_SCHEMA = pa.schema(
    [SCHEMA.field("id"), SCHEMA.field("vector"), pa.field("added", pa.int64()), SCHEMA.field("text")]
)


def in_the_new_schema(*names: str) -> pa.Table:
    old = rows(*names)
    added = pa.array(range(len(names)), pa.int64())
    return pa.Table.from_arrays([old.column("id"), old.column("vector"), added, old.column("text")], schema=NEW_SCHEMA)


def _fragments(table: Table) -> Staged:
    return stage_fragments(table, write_fragments(rows("d", "e", salt=1), table.dataset))


Expected = dict[str, list[object]]
BEFORE = told(rows("a", "b", "c"))
CHANGES: dict[str, tuple[Callable[[Table], Staged | None], Expected, tuple[int, int, int]]] = {
    "append": (lambda t: stage_append(t, rows("d", "e", salt=1)), BEFORE | told(rows("d", "e", salt=1)), (2, 0, 0)),
    "append a stream": (
        lambda t: stage_append(t, rows("d", "e", salt=1).to_reader()),
        BEFORE | told(rows("d", "e", salt=1)),
        (2, 0, 0),
    ),
    "append nothing": (lambda t: stage_append(t, rows()), BEFORE, (0, 0, 0)),
    "fragments": (_fragments, BEFORE | told(rows("d", "e", salt=1)), (2, 0, 0)),
    "overwrite": (lambda t: stage_overwrite(t, rows("c", "d", salt=1)), told(rows("c", "d", salt=1)), (2, 0, 0)),
    "overwrite with nothing": (lambda t: stage_overwrite(t, rows()), {}, (0, 0, 0)),
    "overwrite with a new schema": (
        lambda t: stage_overwrite(t, in_the_new_schema("c", "d")),
        told(in_the_new_schema("c", "d")),
        (2, 0, 0),
    ),
    "overwrite with nothing of a new schema": (lambda t: stage_overwrite(t, in_the_new_schema()), {}, (0, 0, 0)),
    "upsert": (lambda t: stage_upsert(t, rows("b", "d", salt=1)), BEFORE | told(rows("b", "d", salt=1)), (1, 1, 0)),
    "upsert columns in another order": (
        lambda t: stage_upsert(t, rows("b", "d", salt=1).select(SCHEMA.names[::-1])),
        BEFORE | told(rows("b", "d", salt=1)),
        (1, 1, 0),
    ),
    "upsert nothing": (lambda t: stage_upsert(t, rows()), BEFORE, (0, 0, 0)),
    "insert": (lambda t: stage_insert(t, rows("d", "e", salt=1)), BEFORE | told(rows("d", "e", salt=1)), (2, 0, 0)),
    "delete": (
        lambda t: stage_delete(t, All((Compare("u64", "=", 2**64 - 1), Not(equal("id", "b"))))),
        {key: BEFORE[key] for key in "bc"},
        (0, 0, 1),
    ),
    "delete everything": (lambda t: stage_delete(t, Compare("id", ">=", "")), {}, (0, 0, 3)),
    "delete ids": (lambda t: stage_delete_ids(t, ["a", "c", "nobody"]), {"b": BEFORE["b"]}, (0, 0, 2)),
    "change": (
        lambda t: stage_change(t, rows("b", "d", salt=1), ["c", "nobody"]),
        {"a": BEFORE["a"]} | told(rows("b", "d", salt=1)),
        (1, 1, 1),
    ),
    "change that only deletes": (
        lambda t: stage_change(t, rows(), ["b", "c"]),
        {"a": BEFORE["a"]},
        (0, 0, 2),
    ),
    "change that only writes": (
        lambda t: stage_change(t, rows("b", salt=1), []),
        BEFORE | told(rows("b", salt=1)),
        (0, 1, 0),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_invisible_until_it_is_committed_and_whole_afterwards(graph_uri: str, change: str) -> None:
    stage, expected, counted = CHANGES[change]
    store, tables = on_main_and_on_a_branch(graph_uri)
    for table in tables:
        staged = stage(table)
        assert staged is not None
        assert (staged.inserted, staged.updated, staged.deleted) == counted
        assert (table.latest_version(), staged.read_version) == (1, 1)
        assert contents(fresh(table, store)) == BEFORE
        landed = commit_staged(staged)
        assert (landed.version, landed.contiguous, landed.table.pin) == (2, True, Pin(PATH, 2, table.branch))
        assert contents(landed.table) == expected
        assert contents(fresh(table, store)) == expected
        assert contents(table) == BEFORE


def test_a_restored_version_is_the_newest_again(graph_uri: str) -> None:
    store, tables = on_main_and_on_a_branch(graph_uri)
    for table in tables:
        changed = commit_staged(stage_overwrite(table, in_the_new_schema("z"))).table
        staged = stage_restore(changed, 1)
        assert contents(fresh(table, store)) == told(in_the_new_schema("z"))
        assert commit_staged(staged).version == 3
        assert contents(fresh(table, store)) == BEFORE


def test_nothing_to_delete_is_nothing_to_commit(tmp_path: Path) -> None:
    table = made(open_store(str(tmp_path)), small("a"))
    assert stage_delete(table, equal("id", "nobody")) is None
    assert stage_delete_ids(table, ["nobody"]) is None
    assert stage_delete_ids(table, []) is None


def test_an_updated_row_keeps_its_row_id_and_says_when_it_changed(graph_uri: str) -> None:
    table = made(open_store(graph_uri), rows("a", "b", "c"))
    before = row_ids(table)
    for content, removed in ((rows("b", "d", salt=1), []), (rows("a", "e", salt=2), ["c"])):
        table = commit_staged(stage_change(table, content, removed)).table
    after = row_ids(table)
    assert {key: after[key] for key in "ab"} == {key: before[key] for key in "ab"}
    assert len(set(after.values())) == len(after) == 4
    ages = table.dataset.scanner(columns=["id", "_row_created_at_version", "_row_last_updated_at_version"]).to_table()
    assert sorted(zip(*(each.to_pylist() for each in ages.columns), strict=True)) == [
        ("a", 1, 3),
        ("b", 1, 2),
        ("d", 2, 2),
        ("e", 3, 3),
    ]


def test_row_ids_stay_unique_after_an_overwrite_and_a_restore(tmp_path: Path) -> None:
    table = made(open_store(str(tmp_path)), small("a", "b"))
    table = commit_staged(stage_overwrite(table, small("c", "d"))).table
    table = commit_staged(stage_restore(table, 1)).table
    table = commit_staged(stage_append(table, small("e"))).table
    numbers = row_ids(table)
    assert sorted(numbers) == ["a", "b", "e"]
    assert len(set(numbers.values())) == 3


@pytest.mark.parametrize("stage", [stage_upsert, stage_insert, lambda table, rows: stage_change(table, rows, [])])
def test_repeated_ids_are_refused(tmp_path: Path, stage: Callable[[Table, pa.Table], Staged]) -> None:
    table = made(open_store(str(tmp_path)), small("a"))
    with pytest.raises(InvalidInput, match="repeat the id 'twice'"):
        stage(table, small("x", "twice", "twice"))
    assert table.latest_version() == 1


def test_an_insert_of_an_id_that_is_there_is_refused_and_names_it(graph_uri: str) -> None:
    table = made(open_store(graph_uri), small("a", "b"))
    with pytest.raises(InvalidInput, match='"b"'):
        stage_insert(table, small("new", "b"))
    assert ids(table) == ["a", "b"]


def test_a_row_cannot_be_written_and_removed_at_once(tmp_path: Path) -> None:
    table = made(open_store(str(tmp_path)), small("a"))
    with pytest.raises(InvalidInput, match="writes and removes the id 'a'"):
        stage_change(table, small("a", "b"), ["z", "a"])


@pytest.mark.parametrize("stage", [stage_append, stage_upsert, stage_insert])
def test_rows_that_do_not_fit_the_table_are_refused(tmp_path: Path, stage: Callable[[Table, pa.Table], Staged]) -> None:
    table = made(open_store(str(tmp_path)), small("a"))
    nameless = pa.table({"id": pa.array(["k", None]), "n": pa.array([1, 2])})
    mistyped = pa.table({"id": ["k"], "n": ["text"]})
    for misfit in (small("k").append_column("extra", pa.array([1])), mistyped, nameless):
        with pytest.raises(InvalidInput):
            stage(table, misfit)
    assert table.latest_version() == 1


def test_a_blob_may_stand_elsewhere(tmp_path: Path) -> None:
    outside = tmp_path / "outside.bin"
    outside.write_bytes(b"far away")
    pointer = pa.array([{"data": None, "uri": outside.as_uri()}], SCHEMA.field("blob").type)
    external = rows("far").set_column(SCHEMA.get_field_index("blob"), SCHEMA.field("blob"), pointer)
    store = open_store(str(tmp_path / "graph"))
    table = made(store, external)
    for stage in (stage_append, stage_overwrite):
        table = commit_staged(stage(table, external)).table
        (blob,) = table.dataset.take_blobs("blob", indices=[table.count_rows() - 1])
        assert blob.read() == b"far away"
    with pytest.raises(InvalidInput, match="External blob"):
        stage_upsert(table, external)


def test_rows_are_written_in_pieces_that_upserts_stay_quick_on(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    many = pa.table({"id": [f"{n}" for n in range(250_000)], "n": range(250_000)}, schema=SMALL)
    table = made(store, many)
    assert [each.count_rows() for each in table.dataset.get_fragments()] == [100_000, 100_000, 50_000]
    for stage in (stage_append, stage_overwrite):
        sizes = [each.physical_rows for each in stage(table, many).transaction.operation.fragments]
        assert sizes == [100_000, 100_000, 50_000]


# -- conflicts ---------------------------------------------------------------------------------------------------------


def test_a_foreign_commit_below_an_append_is_told(graph_uri: str) -> None:
    store = open_store(graph_uri)
    table = made(store, small("a"))
    mine = stage_append(table, small("mine"))
    commit_staged(stage_append(table, small("theirs")))
    landed = commit_staged(mine)
    assert (landed.version, landed.contiguous) == (3, False)
    assert ids(fresh(table, store)) == ["a", "mine", "theirs"]


def _delete(table: Table) -> Staged:
    staged = stage_delete(table, one_of("id", ["a"]))
    assert staged is not None
    return staged


def _compact(table: Table) -> Staged:
    staged = stage_compaction(table, rows_per_file=1000)
    assert staged is not None
    return staged


WRITERS: dict[str, Callable[[Table], Staged]] = {
    "append": lambda table: stage_append(table, small("new")),
    "upsert": lambda table: stage_upsert(table, small("a", n=1)),
    "delete": _delete,
    "overwrite": lambda table: stage_overwrite(table, small("z")),
    "restore": lambda table: stage_restore(table, 1),
    "index": lambda table: stage_indexes(table, [IndexSpec("n", "btree", "n_idx")]),
    "compact": _compact,
}
# Second writer, first writer: what happens to the second. The whole matrix of operations is in tests/conformance.
PAIRS = [
    ("append", "upsert", None),
    ("append", "delete", None),
    ("append", "compact", None),
    ("append", "overwrite", CommitRejected),
    ("append", "restore", CommitRejected),
    ("upsert", "append", None),
    ("upsert", "upsert", CommitConflict),
    ("upsert", "delete", CommitConflict),
    ("upsert", "compact", CommitConflict),
    ("upsert", "overwrite", CommitRejected),
    ("delete", "upsert", CommitConflict),
    ("delete", "delete", CommitConflict),
    ("delete", "append", None),
    ("overwrite", "append", CommitConflict),
    ("overwrite", "overwrite", CommitConflict),
    ("overwrite", "index", CommitConflict),
    ("restore", "append", None),
    ("restore", "upsert", None),
    ("index", "append", None),
    ("index", "index", CommitConflict),
    ("index", "overwrite", CommitRejected),
    ("compact", "append", None),
    ("compact", "upsert", CommitConflict),
    ("compact", "delete", CommitConflict),
    ("compact", "compact", CommitConflict),
]


@pytest.mark.parametrize(("second", "first", "outcome"), PAIRS)
def test_two_writers_of_one_version(
    tmp_path: Path, first: str, second: str, outcome: type[CommitFailed] | None
) -> None:
    store = open_store(str(tmp_path))
    table = commit_staged(stage_append(made(store, small("a")), small("b"))).table
    loser, winner = WRITERS[second](table), WRITERS[first](table)
    assert commit_staged(winner).contiguous
    if outcome is None:
        landed = commit_staged(loser)
        assert (landed.version, landed.contiguous) == (4, False)
        return
    with pytest.raises(outcome) as caught:
        commit_staged(loser)
    assert type(caught.value) is outcome
    assert caught.value.retryable is (outcome is CommitConflict)
    assert fresh(table, store).version == 3


# -- whose commit is it ------------------------------------------------------------------------------------------------


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
    store = TableStore(parse_location(f"s3://{server.bucket}/lossy/{name}", world, impatient))
    return store, made(store, small("a"))


def fresh_behind(store: TableStore) -> Table:
    """The newest version, without anything that the store's own session remembers."""
    return TableStore(store.location).open_newest(PATH)


# -- creating ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [None, rows("a", "b")])
def test_a_new_table_is_what_the_format_says(graph_uri: str, content: pa.Table | None) -> None:
    store = open_store(graph_uri)
    dataset = create_table(store.uri(PATH), SCHEMA, None if content is None else [content], options(store))
    table = store.open_newest(PATH)
    assert (dataset.version, table.version, dataset.data_storage_version) == (1, 1, "2.2")
    assert dataset.has_stable_row_ids
    assert (dataset.config(), dataset.metadata, dataset.schema.metadata) == ({}, {}, None)
    assert contents(table) == ({} if content is None else told(content))
    assert table.schema.names == SCHEMA.names
    assert table.schema.field("blob").type.storage_type == SCHEMA.field("blob").type
    assert len(table.fragment_ids()) == (0 if content is None else 1)


def test_each_of_several_tables_becomes_a_piece_of_its_own(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    create_table(store.uri(PATH), SMALL, [small("a", "b"), small("c")], None)
    pieces = store.open_newest(PATH).dataset.get_fragments()
    assert [each.to_table(["id"]).column("id").to_pylist() for each in pieces] == [["a", "b"], ["c"]]


def test_a_table_that_is_there_is_not_created_again(graph_uri: str) -> None:
    store = open_store(graph_uri)
    table = made(store, small("a"))
    commit_staged(stage_append(table, small("b")))
    for content in (None, [small("z")]):
        with pytest.raises(ObjectExists, match=PATH):
            create_table(store.uri(PATH), SMALL, content, options(store))
    assert ids(fresh(table, store)) == ["a", "b"]


@pytest.mark.parametrize("turn", range(3))
def test_of_six_processes_creating_one_table_one_wins(graph_uri: str, racers: Racers, turn: int) -> None:
    outcomes = racers.all(create, graph_uri)
    assert sorted(outcomes) == ["object_exists"] * (RACERS - 1) + ["won"]
    table = open_store(graph_uri).open_newest("raced")
    assert table.version == 1
    assert ids(table) == [f"from {outcomes.index('won')}"]


def test_restoring_a_version_that_never_was_fails_and_changes_nothing(tmp_path: Path) -> None:
    table = made(open_store(str(tmp_path)), small("a"))
    with pytest.raises(NotFound):
        commit_staged(stage_restore(table, 99))
    assert table.latest_version() == 1
