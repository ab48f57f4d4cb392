"""Results that are handed over in batches: the same rows as at once, in bounded memory, inside the same limits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from omnigraph.catalog.arrow import table_arrow_schemas
from omnigraph.errors import InvalidInput, QueryCancelled, QueryTimedOut
from omnigraph.query.exec.matcher import WINDOWED
from omnigraph.storage.tables.staging import stage_append
from query.conftest import SOCIAL, edge, person
from query.graphs import Graph, make_graph

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = 4_096
THINGS = """
node Thing { key: I64 @key
  label: String
  size: I32? }
node Other { key: I64 @key }
edge Near: Thing -> Thing
"""


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    names = [f"p{number:03d}" for number in range(300)]
    knows = [edge(a, b) for n, a in enumerate(names) for b in names[n : n + 20]]
    people = [person(name, number % 50) for number, name in enumerate(names)]
    return make_graph(tmp_path_factory.mktemp("crowd"), SOCIAL, {"Person": people, "Knows": knows})


def rows_of(batches: Iterator[pa.RecordBatch] | pa.RecordBatchReader) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize(
    "text",
    [
        "match { $a: Person } return { $a.name, $a.age }",
        "match { $a: Person $a.age > 40 } return { $a }",
        "match { $a knows $b $b knows $c } return { $a.name, $c.age + 1 as older, 7 as seven }",
        "match { $a knows $b } return { $a.name }",
        "match { $a: Person optional { $a knows $b $b.age = 3 } } return { $a.name, $b.name }",
        "match { $a: Person } return { $a.name } limit 7 offset 290",
        "match { $a knows $b } return { $b.name } limit 0",
        "match { $a: Person $a.age > 900 } return { $a.name, $a }",
        "match { $a knows $b } return { count($b) as n }",
        "match { $a knows $b $b knows $c } return { $a.name, count($c) as n } order { n desc, $a.name }",
        "match { $a knows $b } return distinct { $b.age } order { $b.age desc } offset 2",
        "match { $a knows $b } return { $a.name, $b.name } order { $b.name desc, $a.name } limit 1000",
    ],
)
def test_a_stream_has_the_rows_and_the_types_of_the_whole_result(crowd: Graph, text: str) -> None:
    whole = crowd.query(text).to_arrow()
    several: list[dict[str, Any]] = [{}, {"batch_rows": 700}]
    for options in several:
        reader = crowd.prepared(text, **options).stream()
        assert reader.schema.equals(whole.schema)
        streamed = rows_of(reader)
        if "order" in text or "limit" in text:
            assert streamed == [tuple(row.values()) for row in whole.to_pylist()]
        else:
            assert sorted(map(repr, streamed)) == sorted(map(repr, (tuple(row.values()) for row in whole.to_pylist())))


def test_one_match_that_stands_for_many_rows_is_repeated_in_batches(tmp_path: Path) -> None:
    people = [person(f"p{number}", number) for number in range(500)]
    knows = [edge("p0", f"p{number}") for number in range(1, 500)]
    graph = make_graph(tmp_path, SOCIAL, {"Person": people, "Knows": knows})
    text = "match { $a: Person $a knows $b $a knows $c $a knows $d $d.age < 5 } return { $a.name }"
    sizes = [batch.num_rows for batch in graph.prepared(text).stream()]
    assert sum(sizes) == 499 * 499 * 4
    assert max(sizes) <= 65_536


def test_ten_million_rows_pass_through_little_memory(tmp_path: Path) -> None:
    things = [{"key": number, "label": f"thing {number}", "size": number} for number in range(10_000)]
    others = [{"key": number} for number in range(1_000)]
    graph = make_graph(tmp_path, THINGS, {"Thing": things, "Other": others})
    text = "match { $t: Thing $o: Other } return { $t.label, $t.size, $o.key }"
    rows, grown = _passed(graph.prepared(text).stream())
    assert rows == 10_000_000
    # The whole result takes 280 MB, and the row numbers that it is made from 160 MB.
    assert grown < 120_000_000


def _passed(reader: pa.RecordBatchReader) -> tuple[int, int]:
    """How many rows there were, and how much more memory than before the process had at most while they passed."""
    rows, most, before = 0, 0, _resident()
    for batch in reader:
        rows += batch.num_rows
        most = max(most, _resident() - before)
    return rows, most


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    graph = make_graph(tmp_path_factory.mktemp("large"), THINGS)
    keys = range(WINDOWED + 100_000)
    rows = {"id": [str(key) for key in keys], "key": keys, "label": [f"thing {key}" for key in keys], "size": keys}
    table = pa.table(rows, schema=None).cast(_without_order(graph, rows))
    return graph._changed("node:Thing", lambda opened: stage_append(opened, table))


def _without_order(graph: Graph, rows: dict[str, Any]) -> pa.Schema:
    arrow = table_arrow_schemas(graph.catalog)["node:Thing"]
    return pa.schema([arrow.field(name) for name in rows])


def test_a_large_table_is_read_in_batches_and_never_held(large: Graph) -> None:
    text = "match { $t: Thing $t.size >= 1000 } return { $t.label, $t.size * 2 as twice, $t }"
    prepared = large.prepared(text)
    reader = prepared.stream()
    rows, last = 0, None
    for batch in reader:
        rows, last = rows + batch.num_rows, batch
    assert rows == WINDOWED + 100_000 - 1_000
    assert last is not None
    newest = last.slice(last.num_rows - 1).to_pylist()[0]
    key = WINDOWED + 100_000 - 1
    assert newest == {
        "t.label": f"thing {key}",
        "twice": 2 * key,
        "t": {"id": str(key), "key": key, "label": f"thing {key}", "size": key},
    }
    assert not prepared.plan().scope.read.table("node:Thing").has_cached(["label"])


def test_deleted_rows_of_a_large_table_do_not_shift_what_is_read(large: Graph) -> None:
    fewer = large.delete("node:Thing", [str(key) for key in range(0, 200_000, 2)])
    text = "match { $t: Thing $t.size < 300000 } return { $t.key, $t.label }"
    found = [(key, label) for batch in fewer.prepared(text).stream() for key, label in _pairs(batch)]
    assert len(found) == 200_000
    assert all(label == f"thing {key}" for key, label in found)


def _pairs(batch: pa.RecordBatch) -> Iterator[tuple[Any, Any]]:
    return zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)


def test_a_reader_that_is_closed_early_lets_go(crowd: Graph) -> None:
    reader = crowd.prepared("match { $a: Person $b: Person } return { $a.name, $b.name }", batch_rows=1_000).stream()
    assert reader.read_next_batch().num_rows
    reader.close()
    assert crowd.rows("match { $p: Person } return { count($p) as n }") == [(300,)]


def test_time_that_runs_out_while_reading_is_an_error_at_the_next_batch(crowd: Graph) -> None:
    asked: list[int] = []

    def cancelled() -> bool:
        asked.append(1)
        return len(asked) > 30

    text = "match { $a: Person $b: Person $c: Person } return { $a.name, $c.name }"
    with pytest.raises(QueryCancelled):
        rows_of(crowd.prepared(text, cancelled=cancelled, batch_rows=10_000).stream())
    with pytest.raises(QueryTimedOut):
        rows_of(crowd.prepared(text, timeout=0.05, batch_rows=10_000).stream())


def test_a_value_that_cannot_be_computed_is_told_from_a_stream_as_from_a_result(crowd: Graph) -> None:
    text = "match { $a knows $b } return { $a.name, $b.age * 9223372036854775807 as x } order { x }"
    with pytest.raises(InvalidInput, match="cannot be computed"):
        rows_of(crowd.prepared(text, batch_rows=500).stream())
