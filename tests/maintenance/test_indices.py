"""Declared indexes are built on request, as one commit, and reads agree with and without them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import omnigraph as og
from omnigraph.storage.filters.model import HasItem, equal
from omnigraph.storage.tables.indexes import index_names

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = """
node Doc {
    slug: String @key
    title: String @index
    year: I32 @index
    kind: enum(paper, book) @index
    tags: [String]
    vector: Vector(2)? @index
    @index(tags)
}
edge Cites: Doc -> Doc { note: String? @index }
"""


@pytest.fixture
def library(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "graph", schema=SCHEMA)
    rows = [
        {
            "slug": f"d{number}",
            "title": f"title {number}",
            "year": 2000 + number,
            "kind": "book",
            "tags": ["a", f"t{number}"],
        }
        for number in range(20)
    ]
    graph.load({"Doc": rows, "Cites": [{"from": "d1", "to": "d2"}]})
    return graph


def table(graph: og.Graph, key: str) -> Any:
    return graph._manifest.stores.tables.open(graph.snapshot()[key].pin)


def test_every_declared_index_is_built_in_one_commit(library: og.Graph) -> None:
    before = len(library.commits())
    report = library.ensure_indices()
    assert len(library.commits()) == before + 1
    assert report.commit == library.commits()[0]
    assert index_names(table(library, "node:Doc")) == {
        "id_idx", "slug_idx", "slug_idx_equality", "title_idx", "year_idx", "kind_idx", "tags_idx",
    }  # fmt: skip
    assert index_names(table(library, "edge:Cites")) == {"id_idx", "src_idx", "dst_idx", "note_idx"}
    assert [(each.table_key, each.property) for each in report.pending] == [("node:Doc", "vector")]


def test_a_second_time_there_is_nothing_to_do(library: og.Graph) -> None:
    library.ensure_indices()
    commits = library.commits()
    assert library.ensure_indices().commit is None
    assert library.commits() == commits


def test_reads_agree_with_and_without_indexes(library: og.Graph) -> None:
    questions = [
        equal("id", "d3"),
        equal("year", 2007),
        equal("slug", "d9"),
        equal("kind", "book"),
        HasItem("tags", "t4"),
    ]

    def answers() -> list[int]:
        return [table(library, "node:Doc").count_rows(each) for each in questions]

    without = answers()
    library.ensure_indices()
    assert answers() == without == [1, 1, 1, 20, 1]
    library.load({"Doc": [{"slug": "new", "title": "x", "year": 2007, "kind": "book", "tags": ["t4"]}]})
    assert answers() == [1, 2, 1, 21, 2]


def test_a_table_without_rows_is_left_alone(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", schema=SCHEMA)
    assert graph.ensure_indices().commit is None


def test_a_branch_gets_indexes_of_its_own(library: og.Graph) -> None:
    library.branches.create("side")
    report = library.ensure_indices(branch="side")
    assert report.commit is not None
    assert library.snapshot(branch="side")["node:Doc"].branch == "side"
    assert index_names(table(library, "node:Doc")) == frozenset()
