"""The class data archive of Spark, with which a JVM starts in about half the time.

An archive is valid for one Spark and one Java, is stored in the user's cache directory, and is built once, by a
low-priority process that starts when the first program without an archive exits. `OMNIGRAPH_SPARK_ARCHIVE` overrides
this: `off` neither uses nor builds an archive, `use` does not build one.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyspark

from omnigraph.errors import SparkUnavailable
from omnigraph.spark.runtime.java import Java, cache_directory
from omnigraph.spark.runtime.jvm import spark_home

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from omnigraph.world import World

SETTING = "OMNIGRAPH_SPARK_ARCHIVE"
# Otherwise the JVM prints a line for every class that it cannot archive.
_SILENT = "-Xlog:disable"


@dataclass(frozen=True)
class ClassArchive:
    """The path of the archive, built or not. `base` is set if the runtime has no archive of its own classes."""

    path: Path
    base: Path | None
    is_wanted: bool = True

    @property
    def is_there(self) -> bool:
        """Whether it exists. A JVM ignores an archive that does not match and then starts slowly."""
        return self.path.is_file() and (self.base is None or self.base.is_file())

    def options(self) -> list[str]:
        """JVM options that use the archive; none if it is missing or switched off."""
        if not self.is_wanted or not self.is_there:
            return []
        files = [str(each) for each in (self.base, self.path) if each is not None]
        return [f"-XX:SharedArchiveFile={os.pathsep.join(files)}", _SILENT]

    def options_to_build(self, into: Path) -> list[str]:
        """JVM options that write an archive at exit."""
        base = [] if self.base is None else [f"-XX:SharedArchiveFile={self.base}"]
        return [*base, f"-XX:ArchiveClassesAtExit={into}", _SILENT]


def archive_for(java: Java, world: World) -> ClassArchive:
    """The archive for the installed Spark on this Java."""
    name, directory = f"java-{java.version}-{_fingerprint(java, world)}", cache_directory(world)
    return ClassArchive(
        directory / f"spark-{pyspark.__version__}-{name}.jsa",
        None if java.has_class_archive else directory / f"{name}.jsa",
        is_wanted=world.environ.get(SETTING) != "off",
    )


def build_at_exit(archive: ClassArchive, world: World) -> None:
    """Build the archive in the background when this process exits, unless it exists or the setting forbids it."""
    if not archive.is_there and world.environ.get(SETTING) in (None, "", "on"):
        atexit.register(_start_building, archive, world)


def build_now(world: World) -> None:
    """Build the archive in a separate process and wait for it, about half a minute."""
    done = subprocess.run(_builder(), env=dict(world.environ), capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise SparkUnavailable(f"the class archive could not be built:\n{done.stderr.strip()[-2_000:]}")


def take_lock(archive: ClassArchive, world: World) -> Path | None:
    """Take the lock file for building; the caller removes it. None while a running process holds it."""
    mark = archive.path.with_suffix(".building")
    mark.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(2):
        try:
            with mark.open("x") as file:
                file.write(world.process())
            return mark
        except FileExistsError:
            if world.is_running(_read(mark)):
                return None
            mark.unlink(missing_ok=True)
    return None


def _start_building(archive: ClassArchive, world: World) -> None:
    if archive.is_there:
        return
    quiet = subprocess.DEVNULL
    subprocess.Popen(  # noqa: S603
        _builder(), env=dict(world.environ), stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
    )


def _builder() -> Sequence[str]:
    return [sys.executable, "-m", "omnigraph.spark.runtime.build_class_archive"]


def _fingerprint(java: Java, world: World) -> str:
    """A hash of both installation paths: environments with equal versions must not replace each other's archive."""
    paths = f"{java.home}\n{spark_home(world)}"
    return hashlib.sha256(paths.encode()).hexdigest()[:12]


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except FileNotFoundError:
        return ""
