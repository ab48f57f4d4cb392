"""Copies of a whole graph, on a disk or on S3, to put it back to where it was before a cut."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.objects.store import open_control_store
from omnigraph.world import REAL

_THREADS = 8


def replace_graph(target: str, source: str) -> None:
    """Make one graph like another, file by file; what was there is gone."""
    if "://" in target:
        _replace_objects(target, source)
    else:
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)


def neighbour(uri: str, name: str) -> str:
    """A place beside a graph."""
    return f"{uri.rpartition('/')[0]}/{name}" if "://" in uri else str(Path(uri).with_name(name))


def _replace_objects(target: str, source: str) -> None:
    to, origin = (open_control_store(parse_location(each, REAL), REAL) for each in (target, source))
    names = origin.list_names()
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(to.delete, {*to.list_names()} - {*names}))
        list(pool.map(lambda name: to.write(name, origin.read(name)), names))
