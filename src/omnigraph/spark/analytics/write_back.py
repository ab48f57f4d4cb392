"""Writes results of graph algorithms to properties of their nodes, as one commit.

Only the new values are shuffled, each to the fragment that contains its node, where a task writes the new column.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as f

from omnigraph.catalog.rules import unique_rules, value_rules
from omnigraph.errors import InvalidInput
from omnigraph.kernels.row_address import ROW_ADDRESS
from omnigraph.spark.runner import errors_of_tasks, one_task_each
from omnigraph.spark.types import spark_schema
from omnigraph.storage.tables.column_writes import RewrittenFragment, rewrite_columns, stage_rewritten
from omnigraph.tasks.table_scan import TableScan, tasks_of
from omnigraph.transaction.constraints.evaluate import value_violations
from omnigraph.transaction.write_set import TableWrite, WriteSet
from omnigraph.values.arrow_casts import cast_column
from omnigraph.values.columns import BadCell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

    from omnigraph.catalog.catalog import Catalog, NodeType
    from omnigraph.storage.objects.location import Location
    from omnigraph.storage.tables.staging import Staged
    from omnigraph.storage.tables.table import Table
    from omnigraph.transaction.read_view import ReadView

_NUMBER: pa.DataType = pa.int64()
_TEXT: pa.DataType = pa.string()
_LOCATIONS = pa.schema([pa.field("id", _TEXT, nullable=False), pa.field("address", _NUMBER, nullable=False)])
_NUMBERS: pa.DataType = pa.list_(pa.field("element", pa.int32()))
_WRITTEN = pa.schema(
    [("fragment", _NUMBER), ("description", _TEXT), ("fields", _NUMBERS), ("offsets", _TEXT), ("rows", _NUMBER)]
)


@dataclass(frozen=True)
class WriteBack:
    """New property values for the nodes that `values` names by type and id. Nodes that no longer exist are skipped."""

    catalog: Catalog
    location: Location
    values: DataFrame
    properties: Sequence[str]
    types: Sequence[str]
    written: dict[str, int] = field(default_factory=dict)

    def prepare(self, view: ReadView) -> WriteSet:
        """One table write for each type that has nodes."""
        self.written.clear()
        entries = [view.entry(f"node:{each}") for each in self.types]
        stages = [(each, partial(self._stage, self.catalog.nodes[each.table_key[5:]])) for each in entries]
        return WriteSet([TableWrite(entry, stage) for entry, stage in stages if entry.row_count])

    def _stage(self, kind: NodeType, table: Table) -> Staged:
        scan = TableScan(self.location, table.pin)
        session = self.values.sparkSession
        locations = one_task_each(session, tasks_of(scan), _locations, _LOCATIONS)
        mine = self.values.where(f.col("type") == kind.name).drop("type")
        joined = locations.join(mine, "id").withColumn("fragment", f.shiftright("address", 32))
        write = _writer(scan, kind, self.catalog, self.properties)
        with errors_of_tasks():
            written: Any = joined.groupBy("fragment").applyInArrow(write, spark_schema(_WRITTEN)).toArrow()
        fragments = [RewrittenFragment(**each) for each in written.sort_by("fragment").to_pylist()]
        self.written[kind.name] = sum(each.rows for each in fragments)
        return stage_rewritten(table, fragments)


def checked_types(catalog: Catalog, names: Sequence[str], properties: Sequence[str]) -> list[str]:
    """Check that every type has the properties and that none of them is part of a key or unique rule."""
    for name in names:
        kind = catalog.nodes.get(name)
        if kind is None:
            raise InvalidInput(f"the results are about {name!r}, which is no node type.")
        fixed = {column for rule in unique_rules(catalog, kind.table_key) for column in rule.columns}
        for each in properties:
            if each not in kind.properties:
                existing = ", ".join(kind.properties) or "none"
                raise InvalidInput(
                    f"{name} has no property {each!r} to write to (it has {existing}): add it to the schema."
                )
            if each in fixed:
                raise InvalidInput(f"{name}.{each} must be unique, so results cannot be written to it.")
    return sorted(names)


def values_of(scores: DataFrame, properties: Mapping[str, str], type_name: str | None) -> DataFrame:
    """Select type, id and the properties from a result frame, renaming columns."""
    if not properties:
        raise InvalidInput("say which column becomes which property: {'property': 'column'}.")
    needed = ["id", *properties.values(), *([] if type_name else ["type"])]
    missing = [name for name in needed if name not in scores.columns]
    if missing:
        raise InvalidInput(f"the results have no column {missing[0]!r}; they have {', '.join(scores.columns)}.")
    kind = f.col("type") if type_name is None else f.lit(type_name)
    return scores.select(kind.alias("type"), "id", *(f.col(column).alias(name) for name, column in properties.items()))


def _locations(scan: TableScan) -> Iterator[pa.RecordBatch]:
    for batch in scan.table().scan(["id", ROW_ADDRESS], fragments=scan.fragments):
        yield pa.record_batch([batch.column("id"), batch.column(ROW_ADDRESS).cast(pa.int64())], schema=_LOCATIONS)


def _writer(
    scan: TableScan, kind: NodeType, catalog: Catalog, properties: Sequence[str]
) -> Callable[[pa.Table], pa.Table]:
    """The body of a task: takes the values of one fragment, returns the metadata of its new column files."""
    rules = [rule for rule in value_rules(catalog, kind.table_key) if rule.property in properties]
    declared = {name: kind.properties[name].type for name in properties}

    def write(rows: pa.Table) -> pa.Table:
        columns = {"id": rows.column("id").combine_chunks()}
        for name, wanted in declared.items():
            try:
                columns[name] = cast_column(wanted, rows.column(name).combine_chunks())
            except BadCell as bad:
                about = f"{kind.name}.{name} of {columns['id'][bad.index]}"
                raise InvalidInput(f"{about}: {bad or bad.rule}") from None
        for violation in value_violations(rules, pa.table(columns)):
            raise violation
        addresses = rows.column("address").combine_chunks().cast(pa.uint64())
        values = pa.table({ROW_ADDRESS: addresses, **{name: columns[name] for name in declared}})
        fragment = rewrite_columns(scan.table(), int(rows.column("fragment")[0].as_py()), values)
        return pa.Table.from_pylist([{**vars(fragment), "fields": list(fragment.fields)}], schema=_WRITTEN)

    return write
