"""Every operation of the conflict matrix, staged on `six_fragments` and ready to commit.

`FIRST` are the columns (committed first), `THEN` the rows (committed second, from the same read version).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from lance import LanceDataset, LanceOperation, Transaction
from lance.file import LanceFileWriter
from lance.fragment import DataFile, write_fragments
from lance.optimize import Compaction

from conformance.tables import FRAGMENTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance import FragmentMetadata
    from lance.schema import LanceSchema

ALL_FRAGMENTS = range(FRAGMENTS)


def transaction(table: LanceDataset, operation: LanceOperation.BaseOperation) -> Transaction:
    """The operation as planned from the version the handle is at."""
    return Transaction(table.version, operation)


def rows(*keys: int) -> pa.Table:
    """Rows of the base table with values nobody else writes."""
    return pa.table({"id": list(keys), "w": [-k for k in keys], "x": [-k for k in keys]})


def append(table: LanceDataset) -> Transaction:
    return write_fragments(rows(1000), table, return_transaction=True)


def overwrite(table: LanceDataset) -> Transaction:
    return write_fragments(rows(1, 2, 3), table, mode="overwrite", return_transaction=True)


def restore(table: LanceDataset) -> Transaction:
    return transaction(table, LanceOperation.Restore(table.version - 1))


def delete(table: LanceDataset, *, key: int) -> Transaction:
    fragment = table.get_fragment(key // 10)
    return transaction(table, LanceOperation.Delete([fragment.delete(f"id = {key}")], [], f"id = {key}"))


def update(table: LanceDataset, *, key: int) -> Transaction:
    staged, _ = table.merge_insert("id").when_matched_update_all().execute_uncommitted(rows(key))
    return staged


def update_column(table: LanceDataset) -> Transaction:
    """Row 3 of fragment 0 through the column-rewriting mode: a new file for `w` alone."""
    fragment, new = table.get_fragment(0), pa.table({"id": [3], "w": [-3]})
    changed, fields, offsets = fragment.update_columns(new, "id", "id", with_offsets=True)
    operation = LanceOperation.Update(
        updated_fragments=[changed],
        fields_modified=fields,
        update_mode="rewrite_columns",
        updated_fragment_offsets={0: offsets},
    )
    return transaction(table, operation)


def create_index(table: LanceDataset, *, column: str, name: str, fragments: range = ALL_FRAGMENTS) -> Transaction:
    index = table.create_index_uncommitted(column, "BTREE", name=name, fragment_ids=list(fragments))
    return transaction(table, LanceOperation.CreateIndex([index], []))


def rewrite(table: LanceDataset, *, fragments: tuple[int, int]) -> Transaction:
    others = [f for f in ALL_FRAGMENTS if f not in fragments]
    plan = Compaction.plan(table, {"target_rows_per_fragment": 1000, "excluded_fragment_ids": others})
    results = [task.execute(table) for task in plan.tasks]
    groups = [LanceOperation.RewriteGroup(r.original_fragments, r.new_fragments) for r in results]
    assert [f.id for g in groups for f in g.old_fragments] == list(fragments)
    return transaction(table, LanceOperation.Rewrite(groups, []))


def config(table: LanceDataset, *, key: str) -> Transaction:
    updates = LanceOperation.UpdateMap({key: "v"})
    return transaction(table, LanceOperation.UpdateConfig(config_updates=updates))


def schema_metadata(table: LanceDataset, *, key: str) -> Transaction:
    updates = LanceOperation.UpdateMap({key: "v"})
    return transaction(table, LanceOperation.UpdateConfig(schema_metadata_updates=updates))


def merge(table: LanceDataset, *, column: str, keeps_nullability: bool) -> Transaction:
    """Add a column to every fragment."""

    def constant(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict({column: [0] * batch.num_rows})

    merged: list[tuple[FragmentMetadata, LanceSchema]] = [
        f.merge_columns(constant, ["id"]) for f in table.get_fragments()
    ]
    operation = LanceOperation.Merge([m for m, _ in merged], merged[0][1], keeps_nullability)
    return transaction(table, operation)


def project(table: LanceDataset, *, drop: str, keeps_nullability: bool) -> Transaction:
    """Drop a column and keep the field ids of the others, which only the pickle form of the schema carries."""
    build, (metadata, *fields) = table.lance_schema.__reduce__()[:2]
    kept = [f for f, name in zip(fields, table.schema.names, strict=True) if name != drop]
    return transaction(table, LanceOperation.Project(build(metadata, *kept), keeps_nullability))


def replace_data(table: LanceDataset, *, fragment: int, column: str) -> Transaction:
    """A new file for one column of one fragment."""
    name = f"replacement-{fragment}-{column}.lance"
    schema = pa.schema([table.schema.field(column)])
    with LanceFileWriter(f"{table.uri}/data/{name}", schema, version="2.2") as writer:
        writer.write_batch(pa.table({column: list(range(10))}, schema=schema))
    group = LanceOperation.DataReplacementGroup(fragment, DataFile.create(table, name))
    return transaction(table, LanceOperation.DataReplacement([group]))


FIRST: dict[str, Callable[[LanceDataset], Transaction]] = {
    "Append": append,
    "Delete": partial(delete, key=3),
    "Update": partial(update, key=3),
    "UpdateColumn": update_column,
    "Overwrite": overwrite,
    "Restore": restore,
    "CreateIndex": partial(create_index, column="w", name="n1"),
    "Rewrite": partial(rewrite, fragments=(0, 1)),
    "Config": partial(config, key="k1"),
    "SchemaMeta": partial(schema_metadata, key="s1"),
    "Merge": partial(merge, column="c1", keeps_nullability=False),
    "MergeKeep": partial(merge, column="c1", keeps_nullability=True),
    "Project": partial(project, drop="x", keeps_nullability=False),
    "ProjectKeep": partial(project, drop="x", keeps_nullability=True),
    "ReplaceData": partial(replace_data, fragment=0, column="w"),
}

THEN: dict[str, Callable[[LanceDataset], Transaction]] = {
    "Append": append,
    "Delete same row": partial(delete, key=3),
    "Delete same fragment": partial(delete, key=7),
    "Delete other fragment": partial(delete, key=57),
    "Update same row": partial(update, key=3),
    "Update same fragment": partial(update, key=7),
    "Update other fragment": partial(update, key=57),
    "Overwrite": overwrite,
    "Restore": restore,
    "CreateIndex same name": partial(create_index, column="w", name="n1"),
    "CreateIndex other column": partial(create_index, column="id", name="n2"),
    "CreateIndex same column": partial(create_index, column="w", name="n3"),
    "CreateIndex fragment 5 only": partial(create_index, column="w", name="n4", fragments=range(5, 6)),
    "Rewrite fragments 0 1": partial(rewrite, fragments=(0, 1)),
    "Rewrite fragments 4 5": partial(rewrite, fragments=(4, 5)),
    "Config same key": partial(config, key="k1"),
    "Config other key": partial(config, key="k2"),
    "SchemaMeta same key": partial(schema_metadata, key="s1"),
    "SchemaMeta other key": partial(schema_metadata, key="s2"),
    "Merge": partial(merge, column="c2", keeps_nullability=False),
    "MergeKeep": partial(merge, column="c2", keeps_nullability=True),
    "Project": partial(project, drop="w", keeps_nullability=False),
    "ProjectKeep": partial(project, drop="w", keeps_nullability=True),
    "ReplaceData same column": partial(replace_data, fragment=0, column="w"),
    "ReplaceData other column": partial(replace_data, fragment=0, column="x"),
    "ReplaceData fragment 5": partial(replace_data, fragment=5, column="w"),
}
