"""Tables that are created: what they are, and that of several creators one succeeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from omnigraph.errors import ObjectExists
from omnigraph.storage.tables.new_tables import create_table
from omnigraph.storage.tables.staging import commit_staged, stage_append
from storage.every_type import PATH, SCHEMA, SMALL, contents, fresh, ids, made, open_store, rows, small, told
from storage.racers import RACERS, create

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from storage.racers import Racers


@pytest.mark.parametrize("content", [None, rows("a", "b")])
def test_a_new_table_is_what_the_format_says(graph_uri: str, content: pa.Table | None) -> None:
    store = open_store(graph_uri)
    dataset = create_table(store, PATH, SCHEMA, () if content is None else [content]).handle
    table = store.open_newest(PATH)
    assert (dataset.version, table.version, dataset.data_storage_version) == (1, 1, "2.2")
    assert dataset.has_stable_row_ids
    assert (dataset.config(), dataset.metadata, dataset.schema.metadata) == ({}, {}, None)
    assert contents(table) == ({} if content is None else told(content))
    assert table.schema.names == SCHEMA.names
    assert table.schema.field("blob").type.storage_type == SCHEMA.field("blob").type
    assert len(table.fragment_ids()) == (0 if content is None else 1)


def test_each_of_several_tables_becomes_a_fragment_of_its_own(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    create_table(store, PATH, SMALL, [small("a", "b"), small("c")])
    fragments = store.open_newest(PATH).handle.get_fragments()
    assert [each.to_table(["id"]).column("id").to_pylist() for each in fragments] == [["a", "b"], ["c"]]


def test_a_table_that_is_there_is_not_created_again(graph_uri: str) -> None:
    store = open_store(graph_uri)
    table = made(store, small("a"))
    commit_staged(stage_append(table, small("b")))
    for content in ([], [small("z")]):
        with pytest.raises(ObjectExists, match=PATH):
            create_table(store, PATH, SMALL, content)
    assert ids(fresh(table, store)) == ["a", "b"]


@pytest.mark.parametrize("turn", range(3))
def test_of_six_processes_creating_one_table_one_wins(graph_uri: str, racers: Racers, turn: int) -> None:
    outcomes = racers.all(create, graph_uri)
    assert sorted(outcomes) == ["object_exists"] * (RACERS - 1) + ["won"]
    table = open_store(graph_uri).open_newest("raced")
    assert table.version == 1
    assert ids(table) == [f"from {outcomes.index('won')}"]
