"""Graphs with long histories: built once on the disk by real commits, kept there, copied to where they are measured.

A graph without branches names its files relative to itself, so a copy of its files is a graph.
"""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.objects.store import open_control_store
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from omnigraph.storage.objects.store import ObjectStore


def kept_graph(folder: Path, name: str, build: Callable[[str], None]) -> Path:
    """The graph of this name in a folder; built there at first use. A builder that was cut short is asked to go on."""
    place, done = folder / name, folder / f"{name}.done"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        build(str(place))
        done.touch()
    return place


def copy_graph(source: Path, uri: str) -> str:
    """Copy a graph's files to another place; the URI of the copy."""
    location = parse_location(uri, REAL)
    if location.is_local:
        shutil.copytree(source, uri)
        return uri
    store = open_control_store(location, REAL)
    # Locks, and Lance's hints at newest versions, are for disks.
    files = [each for each in source.rglob("*") if each.is_file() and not each.name.endswith(("#0", "_hint.json"))]
    with ThreadPoolExecutor(8) as writers:
        for done in [writers.submit(_carry, store, source, each) for each in files]:
            done.result()
    return uri


def _carry(store: ObjectStore, source: Path, file: Path) -> None:
    store.write(file.relative_to(source).as_posix(), file.read_bytes())
