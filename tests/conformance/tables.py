"""The small tables this suite commits to: file format 2.2 and stable row ids, as every OmniGraph dataset has them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation, Transaction
from lance.fragment import write_fragments

FRAGMENTS = 6
ROWS_PER_FRAGMENT = 10
PRIMARY_KEY = {b"lance-schema:unenforced-primary-key": b"true"}


def write(uri: Path | str, rows: pa.Table, *, rows_per_file: int = 1_000_000) -> LanceDataset:
    """A new dataset made the way OmniGraph makes them."""
    return lance.write_dataset(
        rows, str(uri), data_storage_version="2.2", enable_stable_row_ids=True, max_rows_per_file=rows_per_file
    )


def keyed(keys: list[int], value: str = "", *, primary_key: bool = False) -> pa.Table:
    """Rows (id, value), the id annotated as unenforced primary key if asked."""
    annotation = PRIMARY_KEY if primary_key else None
    fields: list[pa.Field[Any]] = [
        pa.field("id", pa.int64(), nullable=False, metadata=annotation),
        pa.field("value", pa.utf8()),
    ]
    schema = pa.schema(fields)
    return pa.table({"id": keys, "value": [value] * len(keys)}, schema=schema)


def six_fragments(uri: Path | str) -> LanceDataset:
    """Ids 0 to 59 in six fragments, `w` and `x` in files of their own; versions 3 and 4 hold the same rows."""
    ids = pa.table({"id": pa.array(range(FRAGMENTS * ROWS_PER_FRAGMENT), pa.int64())})
    table = write(uri, ids, rows_per_file=ROWS_PER_FRAGMENT)
    table.add_columns({"w": "id * 10"})
    table.add_columns({"x": "id * 100"})
    table.update_config({"made": "by six_fragments"})
    return table


def append(table: LanceDataset, rows: pa.Table) -> LanceDataset:
    """Commit an append on top of whatever is newest and return the new handle."""
    fragments = write_fragments(rows, table)
    return LanceDataset.commit(table, LanceOperation.Append(fragments), read_version=table.version)


def staged_append(table: LanceDataset, rows: pa.Table) -> Transaction:
    """An append that is not committed yet."""
    return write_fragments(rows, table, return_transaction=True)


def staged_upsert(table: LanceDataset, rows: pa.Table) -> Transaction:
    """An upsert by `id` that is not committed yet."""
    builder = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    transaction, _ = builder.execute_uncommitted(rows)
    return transaction


def ids(table: LanceDataset) -> list[int]:
    """All ids, sorted, duplicates kept."""
    return sorted(table.to_table(columns=["id"])["id"].to_pylist())


def values(table: LanceDataset) -> dict[int, str]:
    """The value of each id."""
    rows = table.to_table(columns=["id", "value"])
    return dict(zip(rows["id"].to_pylist(), rows["value"].to_pylist(), strict=True))


def link_copy(source: Path, target: Path) -> str:
    """A copy that shares the immutable files; the version hint, which is rewritten in place, is left out."""
    hint = shutil.ignore_patterns("latest_version_hint.json")
    shutil.copytree(source, target, copy_function=os.link, ignore=hint)
    return str(target)


def manifest_file(uri: Path | str, version: int) -> Path:
    """Where Lance keeps the manifest of one version (naming scheme V2)."""
    return Path(uri) / "_versions" / f"{2**64 - 1 - version:020d}.manifest"
