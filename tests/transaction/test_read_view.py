"""Lookups in committed rows find the same, whether the values are listed, probed, or the rows are."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.transaction import read_view as view_module
from transaction.small_graph import SmallGraph

SCHEMA = "node T { n: I32?\n f: F32?\n at: DateTime?\n on: Date?\n s: String?\n b: Bool?\n u: U64?\n tags: [String]? }"
KEY = "node:T"
VALUES: dict[str, list[Any]] = {
    "n": [None, 0, 1, -1, 2**31 - 1],
    "f": [None, 0.0, -0.0, 0.5, math.nan, math.inf],
    "at": [None, 0, 1, 86_400_001, -62_135_596_800_001, 2**60],
    "on": [None, 0, 1, -800_000, 3_000_000],
    "s": [None, "", "a", "'", "é"],
    "b": [None, True, False],
    "u": [None, 0, 2**64 - 1],
    "tags": [None, [], ["a"], ["a", None]],
}
PICKED = {name: st.sampled_from(values) for name, values in VALUES.items()}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> SmallGraph:
    """Every value of every column, some together."""
    graph = SmallGraph(tmp_path_factory.mktemp("lookups") / "g.omni", SCHEMA)
    rows = [{name: values[at % len(values)] for name, values in VALUES.items()} for at in range(12)]
    graph.load(node_T=[{"id": f"r{at:02}", **row} for at, row in enumerate(rows)])
    return graph


def _same(value: Any) -> str:
    return repr(value + 0.0 if isinstance(value, float) else value)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), listed=st.sampled_from([0, 2_000]), fragment=st.sampled_from([1, 5, 65_536]), many=st.booleans())
def test_every_way_of_looking_finds_the_rows_with_the_wanted_values(
    graph: SmallGraph, data: st.DataObject, listed: int, fragment: int, many: bool
) -> None:
    columns = data.draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3, unique=True))
    wanted = {name: data.draw(st.lists(PICKED[name], max_size=4)) * (40 if many else 1) for name in columns}
    asked = graph.rows(KEY, [{"id": "", name: each} for name in columns for each in wanted[name]])
    begin, values = 0, {}
    for name in columns:
        values[name] = asked.column(name).slice(begin, len(wanted[name]))
        begin += len(wanted[name])
    expected = [
        row_id
        for row_id, row in _stored(graph).items()
        if all(row[n] is not None and _same(row[n]) in map(_same, wanted[n]) for n in columns)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(view_module, "LISTED_VALUES", listed)
        patch.setattr(view_module, "BATCH_ROWS", fragment)
        located = graph.view().rows_matching(KEY, values, ["id"])
    found = located.rows
    assert found.column("id").to_pylist() == expected
    assert found.schema.names == ["id"]


def _stored(graph: SmallGraph) -> dict[str, dict[str, Any]]:
    """Committed rows, with dates as the numbers they were given as."""
    rows = graph.view().read(KEY)
    for name, carrier in (("at", pa.int64()), ("on", pa.int32())):
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, name, rows.column(name).combine_chunks().view(carrier))
    return {row["id"]: row for row in rows.to_pylist()}
