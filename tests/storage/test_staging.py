"""Staged changes, kind by kind: nothing is visible before the commit, everything after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from lance.fragment import write_fragments

from omnigraph.errors import InvalidInput, NotFound
from omnigraph.storage.filters.model import And, Compare, Not, equal
from omnigraph.storage.tables.immediate import create_branch
from omnigraph.storage.tables.staging import (
    Staged,
    commit_staged,
    stage_append,
    stage_delete,
    stage_fragments,
    stage_overwrite,
    stage_restore,
)
from omnigraph.storage.tables.table import Pin, Table, TableStore
from storage.every_type import PATH, SCHEMA, SMALL, contents, fresh, ids, made, open_store, row_ids, rows, small, told
from storage.joined_changes import stage_change, stage_delete_ids, stage_insert, stage_upsert

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


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
    return stage_fragments(table, write_fragments(rows("d", "e", salt=1), table.handle))


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
        lambda t: stage_delete(t, And((Compare("u64", "=", 2**64 - 1), Not(equal("id", "b"))))),
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
    ages = table.handle.scanner(columns=["id", "_row_created_at_version", "_row_last_updated_at_version"]).to_table()
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
        (blob,) = table.handle.take_blobs("blob", indices=[table.count_rows() - 1])
        assert blob.read() == b"far away"
    with pytest.raises(InvalidInput, match="External blob"):
        stage_upsert(table, external)


def test_rows_are_written_in_fragments_that_upserts_stay_quick_on(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    many = pa.table({"id": [f"{n}" for n in range(250_000)], "n": range(250_000)}, schema=SMALL)
    table = made(store, many)
    assert [each.count_rows() for each in table.handle.get_fragments()] == [100_000, 100_000, 50_000]
    for stage in (stage_append, stage_overwrite):
        sizes = [each.physical_rows for each in stage(table, many).transaction.operation.fragments]
        assert sizes == [100_000, 100_000, 50_000]


def test_restoring_a_version_that_never_was_fails_and_changes_nothing(tmp_path: Path) -> None:
    table = made(open_store(str(tmp_path)), small("a"))
    with pytest.raises(NotFound):
        commit_staged(stage_restore(table, 99))
    assert table.latest_version() == 1
