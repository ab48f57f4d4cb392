"""Writes, reads and copies the data files of tables without opening the table: what the tasks of a job do.

A task writes fragments, and the driver receives their metadata; nothing is visible until the driver stages and commits
it. A task that fails, runs twice or is lost leaves files that no metadata names. Files that were written below another
branch of the same table, before a branch had its own fork, are copied by `take_over`.
"""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import obstore
import pyarrow as pa
from lance import FragmentMetadata
from lance.file import LanceFileReader
from lance.fragment import write_fragments

from omnigraph.counters import count
from omnigraph.storage.lance.paths import DATA, data_file
from omnigraph.storage.objects.remote import open_remote_objects

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from omnigraph.storage.objects.location import Location
    from omnigraph.storage.objects.remote import RemoteObjects
    from omnigraph.world import World


FILE_FORMAT = "2.2"
Mode = Literal["append", "overwrite"]
_COPIES_AT_ONCE = 16


def write_rows(
    rows: Iterator[pa.RecordBatch],
    table_uri: str,
    storage_options: dict[str, str] | None,
    schema: pa.Schema,
    rows_per_file: int,
    mode: Mode,
) -> list[FragmentMetadata]:
    """Write a stream of stored rows as uncommitted fragments of a table; an empty stream writes none."""
    first = next(rows, None)
    if first is None:
        return []
    written: list[FragmentMetadata] = write_fragments(
        pa.RecordBatchReader.from_batches(schema, chain([first], rows)),
        table_uri,
        schema=schema,
        mode=mode,
        max_rows_per_file=rows_per_file,
        storage_options=storage_options,
        data_storage_version=FILE_FORMAT,
        enable_stable_row_ids=True,
        allow_external_blob_outside_bases=True,
    )
    return written


def fragment_from_json(text: str) -> FragmentMetadata:
    """The fragment that a task has written and described as JSON."""
    return FragmentMetadata.from_json(text)


def read_data_file(
    uri: str, columns: Sequence[str] | None, storage_options: Mapping[str, str] | None, *, batch_size: int
) -> Iterator[pa.RecordBatch]:
    """The rows of one data file, in order, without the table that it belongs to or will belong to."""
    options = None if storage_options is None else dict(storage_options)
    reader = LanceFileReader(uri, storage_options=options, columns=None if columns is None else list(columns))
    yield from reader.read_all(batch_size=batch_size).to_batches()


def take_over(location: Location, files: Sequence[str], *, source: str, target: str, world: World) -> None:
    """Copy data files, and the blobs stored beside them, from one branch of a table to another, given by path.

    Each copy is a durable step: it is not made when the lease of the writer may be over.
    """

    old, new = f"{source}/{DATA}", f"{target}/{DATA}"
    objects = None if location.is_local else open_remote_objects(location, world)

    def copy(name: str) -> None:
        count("object_writes", data_file(target, name))
        if objects is None:
            _copy_local(Path(location.child(old)), Path(location.child(new)), name)
        else:
            _copy_remote(objects, old, new, name)

    with ThreadPoolExecutor(_COPIES_AT_ONCE) as pool:
        for each in [pool.submit(copy_context().run, copy, name) for name in files]:
            each.result()


def _copy_local(old: Path, new: Path, name: str) -> None:
    blobs = old / Path(name).stem
    for file in [old / name, *(blobs.rglob("*") if blobs.is_dir() else ())]:
        if file.is_file():
            _link(file, new / file.relative_to(old))


def _link(file: Path, made: Path) -> None:
    made.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(file, made)
    except FileExistsError:
        return
    except OSError:
        shutil.copyfile(file, made)


def _copy_remote(objects: RemoteObjects, source: str, target: str, name: str) -> None:
    blobs = objects.list(f"{source}/{Path(name).stem}")
    for path in [f"{source}/{name}", *(each.path for each in blobs)]:
        obstore.copy(objects.store, path, f"{target}/{path.removeprefix(source).lstrip('/')}")
