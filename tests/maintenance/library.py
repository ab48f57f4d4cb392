"""A graph of documents with every kind of index, for tests of upkeep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import omnigraph as og

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.storage.tables.table import Table

SCHEMA = """
node Doc {
    slug: String @key
    title: String @index
    year: I32 @index
    tags: [String]
    vector: Vector(2)? @index
    @index(tags)
}
edge Cites: Doc -> Doc
"""


def doc(number: int, word: str | None = None) -> dict[str, Any]:
    title = word or f"word{number}"
    return {
        "slug": f"d{number}", "title": f"{title} shared", "year": 2000 + number, "tags": ["all", f"t{title}"],
        "vector": [float(number), 0.0],
    }  # fmt: skip


def library(place: Path, documents: int = 10) -> og.Graph:
    """Documents in a commit each, without any tidying on the way."""
    graph = og.init(place / "graph", schema=SCHEMA, auto_compact=False)
    for number in range(documents):
        put(graph, doc(number))
    return graph


def put(graph: og.Graph, *rows: dict[str, Any], branch: str = "main") -> None:
    graph.load({"Doc": list(rows)}, mode="merge", branch=branch)


def table(graph: og.Graph, key: str = "node:Doc", branch: str = "main") -> Table:
    return graph._manifest.stores.tables.open(graph.snapshot(branch=branch)[key].pin)


def slugs(graph: og.Graph, snapshot: str | None = None, branch: str = "main") -> list[str]:
    found = graph.query("query q() { match { $d: Doc } return { $d.slug } }", at=snapshot, branch=branch).to_pylist()
    return sorted(next(iter(each.values())) for each in found)


def answers(asked: Table, words: list[str]) -> dict[str, object]:
    """What the indexes are asked, once per word: text, list, ordered and vector."""
    dataset = asked.handle
    by_text = {
        word: sorted(
            dataset.scanner(columns=["slug", "_score"], full_text_query={"query": word, "columns": ["title"]})
            .to_table()
            .column("slug")
            .to_pylist()
        )
        for word in [*words, "shared"]
    }
    by_tag = {word: dataset.count_rows(f"array_has(tags, 't{word}')") for word in words}
    by_year = {year: dataset.count_rows(f"year = {year}") for year in range(2000, 2030)}
    by_id = {number: dataset.count_rows(f"id = 'd{number}'") for number in range(30)}
    near = {"column": "vector", "q": [3.2, 0.0], "k": 1_000}
    nearest = dataset.to_table(columns=["slug", "_distance"], nearest=near).sort_by("_distance").column("slug")
    return {"text": by_text, "tag": by_tag, "year": by_year, "id": by_id, "near": nearest.to_pylist()}


def plain(asked: Table, place: Path) -> Table:
    """The same rows in a table that never had an index."""
    import lance

    from omnigraph.storage.tables.table import Table

    made = lance.write_dataset(asked.read(), str(place), enable_stable_row_ids=True, data_storage_version="2.2")
    return Table(made, path="plain", branch=None)
