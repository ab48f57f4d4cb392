"""What pip installs is what we wrote: a wheel that works away from the checkout."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from omnigraph.world import REAL

ROOT = Path(__file__).parent.parent
USE_IT = """
import omnigraph as og, pathlib
assert pathlib.Path(og.__file__).is_relative_to({place!r}), og.__file__
g = og.init("g.omni", schema="node Person {{ name: String @key }}")
g.load({{"Person": [{{"name": "Ada"}}]}})
print(g.query("query all() {{ match {{ $p: Person }} return {{ $p.name }} }}").to_pylist())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("wheel")
    _run("-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "-w", str(place), str(ROOT))
    (built,) = place.glob("omnigraph-*.whl")
    return built


def _run(*words: str, python: str = sys.executable, cwd: Path | None = None, path: str = "") -> str:
    environment = {**REAL.environ, "PYTHONPATH": path}
    done = subprocess.run([python, *words], cwd=cwd, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_carries_everything_that_is_not_python(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    wanted = {
        str(each.relative_to(source))
        for package in ("omnigraph", "pyspark_omnigraph")
        for each in (source / package).rglob("*")
        if each.is_file() and "__pycache__" not in each.parts
    }
    assert wanted <= inside, sorted(wanted - inside)
    assert "omnigraph/py.typed" in inside


def test_it_works_away_from_the_checkout(wheel: Path, tmp_path: Path) -> None:
    place = tmp_path / "unpacked"
    zipfile.ZipFile(wheel).extractall(place)
    out = _run("-c", USE_IT.format(place=str(place)), cwd=tmp_path, path=str(place))
    assert out.strip() == "[{'p.name': 'Ada'}]"


@pytest.mark.slow
def test_it_installs_into_a_fresh_environment_and_needs_no_extra(wheel: Path, tmp_path: Path) -> None:
    place = tmp_path / "fresh"
    _run("-m", "venv", str(place))
    python = str(place / "bin" / "python")
    constraints = str(ROOT / "constraints.txt")
    _run("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", constraints, str(wheel), python=python)
    assert _run("-c", USE_IT.format(place=str(place)), python=python, cwd=tmp_path).strip() == "[{'p.name': 'Ada'}]"
    done = subprocess.run([place / "bin" / "omnigraph", "version"], capture_output=True, text=True)
    assert done.stdout.startswith("omnigraph ")
    absent = "import importlib.util as u; print([n for n in ('pyspark', 'pandas', 'fastapi') if u.find_spec(n)])"
    assert _run("-c", absent, python=python).strip() == "[]"
