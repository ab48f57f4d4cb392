"""Columns reach DuckDB and come back unchanged, whatever their type and however deep a datetime is in them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from omnigraph.kernels.duckdb_pool import ONE_THREAD, SHARED, DuckLimits, connect, connection, from_duckdb, to_duckdb

MOMENTS = pa.array([0, -1, 86_400_001, None], pa.int64()).view(pa.date64())
LISTS = pa.array([[1, -1], None, [], [86_400_001]], pa.list_(pa.int64())).cast(pa.list_(pa.date64()))


@pytest.mark.parametrize(
    "column",
    [
        MOMENTS,
        LISTS,
        pa.StructArray.from_arrays([MOMENTS, LISTS], names=["at", "ats"]),
        pa.array([1, None], pa.uint32()),
        pa.array([[0.5, 1.5], None], pa.list_(pa.float32(), 2)),
        pa.array(["x", None]),
        pa.array([1, None], pa.int32()).cast(pa.date32()),
    ],
    ids=lambda each: str(each.type),
)
def test_a_column_comes_back_as_it_was(column: pa.Array[Any]) -> None:
    with connection() as duck:
        duck.register("t", pa.table({"c": to_duckdb(column)}))
        answer: Any = duck.sql("SELECT c FROM t").to_arrow_table().column(0)
    assert from_duckdb(answer, column.type).equals(column)


def test_a_value_that_the_type_cannot_hold_is_refused() -> None:
    with pytest.raises(pa.ArrowInvalid):
        from_duckdb(pa.array([2**40]), pa.int32())


def test_connections_with_equal_limits_share_an_instance_and_others_do_not() -> None:
    with connection(DuckLimits(threads=1)) as one, connection(ONE_THREAD) as same, connection(SHARED) as other:
        one.execute("CREATE TABLE IF NOT EXISTS of_the_instance AS SELECT 1")
        assert same.execute("FROM of_the_instance").fetchall() == [(1,)]
        assert other.execute(
            "SELECT count(*) FROM duckdb_tables() WHERE table_name = 'of_the_instance'"
        ).fetchall() == [(0,)]
        one.execute("DROP TABLE of_the_instance")
    mine = connect(ONE_THREAD)
    assert mine.execute("SELECT current_setting('threads')").fetchall() == [(1,)]
    mine.close()
