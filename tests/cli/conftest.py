"""The command line as a person meets it: words in; exit code, stdout and stderr out."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from omnigraph.cli.main import app
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCHEMA = """\
// People and who they know.
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person { since: Date? }
"""
QUERIES = """\
query add($name: String, $age: I32?) { insert Person { name: $name, age: $age } }
query grow($name: String, $age: I32) { update Person set { age: $age } where name = $name }
query meet($a: String, $b: String) { insert Knows { from: $a, to: $b } }
query everybody() { match { $p: Person } return { $p.name, $p.age } order { $p.name asc } }
"""


@dataclass(frozen=True)
class Ran:
    """What came of a command."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of the test's own, with a schema and queries, an empty configuration and no profile."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("OMNIGRAPH_PROFILE", raising=False)
    (tmp_path / "schema.pg").write_text(SCHEMA)
    (tmp_path / "queries.gq").write_text(QUERIES)
    return tmp_path


@pytest.fixture
def run() -> Callable[..., Ran]:
    """Run a command in this process; anything but an exit is the test's failure."""

    def ran(*words: str, stdin: str | None = None) -> Ran:
        result = CliRunner().invoke(app, list(words), input=stdin, prog_name="omnigraph")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    return ran


@pytest.fixture
def spawn(place: Path) -> Callable[..., Ran]:
    """Run a command in a process of its own."""

    def ran(*words: str, **environment: str) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "omnigraph.cli", *words],
            cwd=place,
            env={**REAL.environ, **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return ran


@pytest.fixture
def at_a_terminal(place: Path) -> Callable[..., tuple[int, str]]:
    """Run with a terminal as all three streams; the exit code, and what was shown."""

    def ran(*words: str, answer: str | None = None, **environment: str | None) -> tuple[int, str]:
        ours, theirs = pty.openpty()
        whole = {**REAL.environ, "COLUMNS": "120", "TERM": "xterm", "NO_COLOR": "1", **environment}
        process = subprocess.Popen(
            [sys.executable, "-m", "omnigraph.cli", *words],
            cwd=place,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={name: value for name, value in whole.items() if value is not None},
        )
        os.close(theirs)
        if answer is not None:
            os.write(ours, f"{answer}\n".encode())
        shown = _everything(ours)
        return process.wait(timeout=60), shown.decode()

    return ran


def _everything(terminal: int) -> bytes:
    shown = b""
    try:
        while chunk := os.read(terminal, 4096):
            shown += chunk
    except OSError:  # the other end is closed, which is how a terminal says that it is over
        pass
    os.close(terminal)
    return shown


@pytest.fixture
def configure(place: Path) -> Callable[[str], None]:
    """Write the operator's configuration."""

    def write(text: str) -> None:
        (place / "home").mkdir(exist_ok=True)
        (place / "home" / "config.yaml").write_text(text)

    return write


@pytest.fixture
def graph(run: Callable[..., Ran]) -> str:
    """An empty graph with the schema of this file, beside the test."""
    assert run("init", "--schema", "schema.pg", "graph.omni").code == 0
    return "graph.omni"


@pytest.fixture
def add(run: Callable[..., Ran], graph: str) -> Callable[..., Ran]:
    """Add a person, on main or on a branch."""

    def added(name: str, *words: str) -> Ran:
        done = run(
            "mutate", "add", "--query", "queries.gq", "--store", graph, "--params", f'{{"name":"{name}"}}', *words
        )
        assert done.code == 0, done.err
        return done

    return added
