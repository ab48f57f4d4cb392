"""Staged changes made of fragments that other processes have written, such as the tasks of a Spark job.

Files that were written beside another line of the same table, before a branch had its own, are taken over by copying.
"""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
from lance import FragmentMetadata, LanceOperation, Transaction

from omnigraph.store.remote_objects import open_remote_objects
from omnigraph.store.staging import Staged
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from omnigraph.store.location import Location
    from omnigraph.store.tables import Table

_COPIES_AT_ONCE = 16


def stage_content(table: Table, schema: pa.Schema, fragments: Sequence[FragmentMetadata]) -> Staged:
    """Make the fragments the whole content, and the schema theirs. They were written in overwrite mode."""
    transaction = Transaction(table.version, LanceOperation.Overwrite(schema, list(fragments)))
    return Staged(table, "overwrite", transaction, inserted=_rows(fragments))


def take_over(location: Location, files: Sequence[str], *, source: str, target: str) -> None:
    """Copy data files, and the blobs kept beside them, from one line of a table to another. Lines are named by path."""
    copy = _copy_local if location.is_local else _copy_remote
    with ThreadPoolExecutor(_COPIES_AT_ONCE) as pool:
        list(pool.map(lambda name: copy(location, f"{source}/data", f"{target}/data", name), files))


def _copy_local(location: Location, source: str, target: str, name: str) -> None:
    old, new = Path(location.child(source)), Path(location.child(target))
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


def _copy_remote(location: Location, source: str, target: str, name: str) -> None:
    objects = open_remote_objects(location, REAL)
    blobs = objects.list(f"{source}/{Path(name).stem}")
    for path in [f"{source}/{name}", *(each.path for each in blobs)]:
        obstore.copy(objects.store, path, f"{target}/{path.removeprefix(source).lstrip('/')}")


def _rows(fragments: Sequence[FragmentMetadata]) -> int:
    return sum(int(each.physical_rows) for each in fragments)
