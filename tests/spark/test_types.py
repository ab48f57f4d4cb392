from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from omnigraph.catalog.arrow import is_blob, stored_schema
from omnigraph.errors import InvalidInput
from omnigraph.spark.runner import one_task_each
from omnigraph.spark.types import from_spark, spark_schema, to_spark, wire_schema
from omnigraph.storage.objects.location import parse_location
from omnigraph.tasks.table_scan import TableScan, read_scan
from omnigraph.world import REAL
from spark.tables import EVERY_TYPE, every_type, landed, new_table
from spark.written_frames import write_fragments_distributed

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_every_type_has_the_nearest_spark_type() -> None:
    names = {field.name: field.dataType.simpleString() for field in spark_schema(EVERY_TYPE).fields}
    assert names == {
        "id": "string",
        "bool": "boolean",
        "i32": "int",
        "i64": "bigint",
        "u32": "bigint",
        "u64": "decimal(20,0)",
        "f32": "float",
        "f64": "double",
        "date": "date",
        "moment": "timestamp",
        "vector": "array<float>",
        "strings": "array<string>",
        "moments": "array<timestamp>",
        "u64s": "array<decimal(20,0)>",
        "blob": "struct<data:binary,uri:string>",
    }
    assert [field.name for field in spark_schema(EVERY_TYPE).fields if not field.nullable] == ["id"]


def test_what_is_exchanged_is_what_spark_expects_to_the_letter() -> None:
    assert wire_schema(EVERY_TYPE).equals(to_arrow_schema(spark_schema(EVERY_TYPE), timezone="UTC"))


def test_there_and_back_is_the_same() -> None:
    (batch,) = every_type().to_batches()
    assert from_spark(to_spark(batch, EVERY_TYPE), EVERY_TYPE).equals(batch)
    part = batch.slice(2, 5)
    assert from_spark(to_spark(part, EVERY_TYPE), EVERY_TYPE).equals(part)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.none() | st.integers(0, 2**64 - 1),
            st.none() | st.integers(-(2**53), 2**53),
            st.none() | st.lists(st.none() | st.integers(-(2**53), 2**53), max_size=3),
        ),
        max_size=20,
    )
)
def test_any_values_come_back(rows: list[tuple[Any, ...]]) -> None:
    numbers, moments, lists = ([row[at] for row in rows] for at in range(3))
    batch = pa.record_batch(
        [
            pa.array(numbers, pa.uint64()),
            pa.array(moments, pa.int64()).view(pa.date64()),
            pa.array(lists, pa.list_(pa.field("item", pa.int64()))).view(pa.list_(pa.field("item", pa.date64()))),
        ],
        names=["number", "moment", "moments"],
    )
    assert from_spark(to_spark(batch, batch.schema), batch.schema).equals(batch)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([-1]), pa.uint64()),
        (pa.array([2**32]), pa.uint32()),
        (pa.array([[1.0]], pa.list_(pa.float32())), pa.list_(pa.float32(), 2)),
        (pa.array(["x"]), pa.int32()),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_that_names_the_column(values: pa.Array[Any], kind: pa.DataType) -> None:
    batch = pa.record_batch([values], names=["age"])
    with pytest.raises(InvalidInput, match="column 'age' cannot become"):
        from_spark(batch, pa.schema([("age", kind)]))


def test_a_moment_is_cut_to_milliseconds_towards_the_past() -> None:
    batch = pa.record_batch([pa.array([1_500, -1, None], pa.timestamp("us", "UTC"))], names=["seen"])
    cut = from_spark(batch, pa.schema([("seen", pa.date64())]))
    assert cut.column(0).view(pa.int64()).to_pylist() == [1, -1, None]


def test_a_moment_that_spark_cannot_hold_is_an_error_too() -> None:
    batch = pa.record_batch([pa.array([2**62], pa.int64()).view(pa.date64())], names=["seen"])
    with pytest.raises(InvalidInput, match="column 'seen' cannot become"):
        to_spark(batch, batch.schema)


def test_a_missing_column_is_named_with_those_that_are_there() -> None:
    batch = pa.record_batch([pa.array([1])], names=["nmae"])
    with pytest.raises(InvalidInput, match="no column 'name'; there are nmae"):
        from_spark(batch, pa.schema([("name", pa.string())]))


def test_columns_are_matched_by_name_and_others_are_left_out() -> None:
    batch = pa.record_batch([pa.array([1]), pa.array(["x"]), pa.array([2])], names=["b", "extra", "a"])
    schema = pa.schema([("a", pa.int32()), ("b", pa.uint32())])
    assert from_spark(batch, schema).to_pylist() == [{"a": 2, "b": 1}]


def test_a_blob_column_is_known_as_declared_and_as_lance_returns_it(tmp_path: Path) -> None:
    returned = new_table(tmp_path, EVERY_TYPE).schema
    assert [field.name for field in returned if is_blob(field)] == ["blob"]
    assert stored_schema(returned).equals(EVERY_TYPE, check_metadata=True)


@pytest.mark.spark
def test_every_value_survives_a_spark_job_and_a_table(spark: SparkSession, tmp_path: Path) -> None:
    rows = every_type()
    (batch,) = rows.to_batches()
    frame = one_task_each(spark, [batch], lambda each: [each], EVERY_TYPE)
    # Sorting makes Java take every row apart and put it together again.
    sorted_frame = frame.repartition(2, "id").sortWithinPartitions("id")
    table = new_table(tmp_path, EVERY_TYPE)
    written = write_fragments_distributed(sorted_frame, str(tmp_path / "table"), None, EVERY_TYPE)
    scan = TableScan(parse_location(tmp_path, REAL), landed(table, written).pin)
    found = pa.Table.from_batches(read_scan(scan), schema=EVERY_TYPE)
    assert found.sort_by("id").equals(rows.sort_by("id"))
