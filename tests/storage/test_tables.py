"""Opening tables at pins, keeping and forgetting handles, and telling absence from trouble."""

from __future__ import annotations

import pickle
import threading
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

from omnigraph.counters import counting
from omnigraph.errors import InvalidInput, NotFound, StoreError, StorePermissionDenied, StoreUnavailable
from omnigraph.storage.filters.model import equal, one_of
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.tables.immediate import create_branch, delete_branch
from omnigraph.storage.tables.indexes import IndexSpec, stage_indexes
from omnigraph.storage.tables.staging import commit_staged, stage_append
from omnigraph.storage.tables.table import Pin, Table, TableStore
from omnigraph.world import REAL, World
from storage.every_type import PATH, SCHEMA, contents, fresh, ids, made, open_store, rows, small, told
from storage.joined_changes import stage_delete_ids, stage_upsert

if TYPE_CHECKING:
    from pathlib import Path


def test_a_pin_shows_its_version_whatever_is_committed_later(graph_uri: str) -> None:
    store = open_store(graph_uri)
    first = made(store, small("a"))
    commit_staged(stage_append(first, small("b")))
    assert ids(store.open(Pin(PATH, 1))) == ["a"]
    assert ids(store.open(Pin(PATH, 2))) == ["a", "b"]
    assert ids(store.open_newest(PATH)) == ["a", "b"]
    assert (first.version, first.latest_version(), first.pin) == (1, 2, Pin(PATH, 1))


def test_a_branch_is_opened_by_its_own_tree_and_can_be_shipped_to_another_process(graph_uri: str) -> None:
    store = open_store(graph_uri)
    create_branch(made(store, small("a")), "team/review")
    branch = store.open_newest(PATH, "team/review")
    landed = commit_staged(stage_append(branch, small("on the branch"))).table
    assert (landed.branch, landed.version) == ("team/review", 2)
    assert ids(store.open(Pin(PATH, 2, "team/review"))) == ["a", "on the branch"]
    assert ids(store.open_newest(PATH)) == ["a"]
    shipped = Table(pickle.loads(pickle.dumps(landed.handle)), path=PATH, branch="team/review")
    assert ids(shipped) == ["a", "on the branch"]


def test_every_type_is_read_back_as_it_was_written(graph_uri: str) -> None:
    table = made(open_store(graph_uri), rows("a", "b", "c"))
    assert contents(table) == told(rows("a", "b", "c"))
    for field in SCHEMA:
        if field.name != "blob":
            assert table.schema.field(field.name) == field


def test_a_handle_is_opened_once_and_kept(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    made(store, small("a"))
    pin = Pin(PATH, 1)
    with counting() as counts:
        assert store.open(pin) is store.open(pin)
    assert counts.table_opens == 1
    store.forget(PATH)
    with counting() as counts:
        store.open(pin)
    assert counts.table_opens == 1


def test_only_so_many_handles_are_kept_and_the_oldest_go_first(tmp_path: Path) -> None:
    store = TableStore(parse_location(str(tmp_path), REAL), REAL, cached_handles=2)
    table = made(store, small("a"))
    for name in ("b", "c"):
        table = commit_staged(stage_append(table, small(name))).table
    for version in (1, 2, 1, 3):
        store.open(Pin(PATH, version))
    with counting() as counts:
        store.open(Pin(PATH, 1))
        store.open(Pin(PATH, 3))
    assert counts.table_opens == 0
    with counting() as counts:
        store.open(Pin(PATH, 2))
    assert counts.table_opens == 1


def test_forgetting_a_branch_leaves_the_handles_of_the_others(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    table = made(store, small("a"))
    create_branch(table, "x")
    kept = store.open(Pin(PATH, 1))
    forgotten = store.open(Pin(PATH, 1, "x"))
    store.forget(PATH, "x")
    assert store.open(Pin(PATH, 1)) is kept
    assert store.open(Pin(PATH, 1, "x")) is not forgotten


def recreated(store: TableStore, turn: int) -> Table:
    """Branch `x` deleted and made anew, with other rows under the same version numbers."""
    main = store.open_newest(PATH)
    if turn:
        delete_branch(main, "x")
    store.forget(PATH, "x")
    create_branch(main, "x")
    table = commit_staged(stage_append(store.open_newest(PATH, "x"), small(f"new {turn}"))).table
    table = commit_staged(stage_upsert(table, small("a" if turn % 2 else "b", n=turn))).table
    return store.open(table.pin)


def test_a_branch_made_anew_shows_its_own_rows_also_through_an_index(graph_uri: str) -> None:
    store = open_store(graph_uri)
    commit_staged(stage_indexes(made(store, small("a", "b", "c")), [IndexSpec("id", "btree", "id_idx")]))
    for turn in range(4):
        table = recreated(store, turn)
        assert ids(table) == sorted(["a", "b", "c", f"new {turn}"])
        assert {key: table.count_rows(equal("id", key)) for key in ids(table)} == dict.fromkeys(ids(table), 1)
        staged = stage_delete_ids(table, ["a", "b"])
        assert staged is not None
        assert staged.deleted == 2


def test_a_handle_opened_while_its_branch_is_forgotten_is_not_kept(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    create_branch(made(store, small("a")), "x")
    stop = threading.Event()

    def forget_for_ever() -> None:
        while not stop.is_set():
            store.forget(PATH, "x")

    forgetter = threading.Thread(target=forget_for_ever)
    forgetter.start()
    try:
        for _ in range(200):
            store.open(Pin(PATH, 1, "x"))
    finally:
        stop.set()
        forgetter.join()
    store.forget(PATH, "x")
    with counting() as counts:
        store.open(Pin(PATH, 1, "x"))
    assert counts.table_opens == 1


@pytest.mark.parametrize(
    ("path", "branch", "version"), [("nowhere", None, None), (PATH, "nobody", None), (PATH, None, 99)]
)
def test_what_is_not_there_is_not_found(graph_uri: str, path: str, branch: str | None, version: int | None) -> None:
    store = open_store(graph_uri)
    made(store, small("a"))
    with pytest.raises(NotFound, match=path):
        store.open(Pin(path, version, branch)) if version else store.open_newest(path, branch)
    assert store.exists(PATH)
    assert not store.exists("nowhere")


def test_a_directory_or_a_file_is_not_a_table(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").write_text("not a table")
    assert not store.exists("directory")
    assert not store.exists("file")


@pytest.mark.parametrize("home", ["plain", "not found", "AccessDenied"])
def test_a_damaged_version_file_is_an_error_and_not_an_absence(tmp_path: Path, home: str) -> None:
    store = open_store(str(tmp_path / home))
    made(store, small("a"))
    (version,) = (tmp_path / home / PATH / "_versions").glob("*.manifest")
    version.write_bytes(b"damaged")
    with pytest.raises(StoreError) as caught:
        store.open(Pin(PATH, 1))
    assert type(caught.value) is StoreError


@pytest.mark.s3
def test_wrong_credentials_are_a_permission_error_and_not_an_absence(s3_uri: str) -> None:
    made(open_store(s3_uri), small("a"))
    wrong = TableStore(parse_location(s3_uri, REAL, storage_options={"aws_secret_access_key": "wrong"}), REAL)
    with pytest.raises(StorePermissionDenied, match="credentials"):
        wrong.exists(PATH)


@pytest.mark.s3
def test_a_missing_bucket_is_unavailable_and_not_an_absence(s3_uri: str) -> None:
    with pytest.raises(StoreUnavailable, match="bucket"):
        open_store("s3://no-such-bucket/graph").exists(PATH)


def test_a_store_that_does_not_answer_is_unavailable() -> None:
    world = World(
        {
            "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
        }
    )
    impatient = {"client_max_retries": "0", "client_retry_timeout": "1"}
    store = TableStore(parse_location("s3://bucket/graph", world, impatient), REAL)
    with pytest.raises(StoreUnavailable) as caught:
        store.exists(PATH)
    assert caught.value.retryable


def test_a_scan_streams_chosen_columns_rows_and_fragments(graph_uri: str) -> None:
    store = open_store(graph_uri)
    table = commit_staged(stage_append(made(store, small("a", "b")), small("c", "d", "e"))).table
    assert table.fragment_ids() == (0, 1)
    assert [each.num_rows for each in table.scan(["id"], fragments=[1], batch_size=2)] == [2, 1]
    assert table.read(["n"]).schema == pa.schema([("n", pa.int64())])
    assert table.read(["id"], one_of("id", ["a", "e", "z"])).column("id").to_pylist() == ["a", "e"]
    assert table.read(["id"], equal("id", "z")).schema.names == ["id"]
    assert (table.count_rows(), table.count_rows(equal("id", "a"))) == (5, 1)
    assert fresh(table, store).count_rows() == 5


def test_a_column_or_fragment_that_is_not_there_is_named(tmp_path: Path) -> None:
    table = made(open_store(str(tmp_path)), small("a"))
    with pytest.raises(InvalidInput, match="nope"):
        table.read(["nope"])
    with pytest.raises(InvalidInput, match="nope"):
        table.count_rows(equal("nope", "x"))
    with pytest.raises(NotFound, match="no fragment 7"):
        list(table.scan(fragments=[7]))


def test_the_settings_of_the_location_reach_lance(s3_server: object, s3_environment: dict[str, str]) -> None:
    """Nothing is in the environment of this process: only the location knows where the store is."""
    uri = "s3://lake/settings/graph.omni"
    store = TableStore(parse_location(uri, World(s3_environment)), REAL)
    table = commit_staged(stage_append(made(store, small("a")), small("b"))).table
    create_branch(table, "x")
    on_branch = commit_staged(stage_append(store.open_newest(PATH, "x"), small("c"))).table
    create_branch(on_branch, "y")
    assert ids(store.open_newest(PATH, "y")) == ["a", "b", "c"]
    assert isinstance(store.open_newest(PATH).handle, lance.LanceDataset)
