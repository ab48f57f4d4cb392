"""The program as a process: exit codes, streams, tracebacks, start-up, help and completion."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import typer
from typer.core import TyperGroup

from omnigraph import __version__
from omnigraph.cli.main import app
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from cli.conftest import Ran

    Run = Callable[..., Ran]

HEAVY = ("lance", "pyarrow", "duckdb", "pyspark", "pydantic", "obstore", "numpy", "sqlglot")


def test_exit_codes_of_a_real_process(spawn: Run) -> None:
    fine, mistake, nonsense = spawn("version"), spawn("snapshot", "nowhere.omni"), spawn("snapshot", "--no-such-option")

    assert (fine.code, fine.out, fine.err) == (0, f"omnigraph {__version__}\ninternal-schema 4\n", "")
    assert (mistake.code, mistake.out) == (1, "")
    assert mistake.err.startswith("error[not_a_graph]: ")
    assert len(mistake.err.splitlines()) == 1
    assert (nonsense.code, nonsense.out) == (2, "")
    assert "--no-such-option" in nonsense.err


def test_debug_shows_the_traceback(spawn: Run) -> None:
    ran = spawn("snapshot", "nowhere.omni", "--debug")

    assert ran.code == 1
    assert "Traceback" in ran.err
    assert ran.err.splitlines()[-1].startswith("error[not_a_graph]: ")


def test_an_unforeseen_error_is_told_in_two_lines(spawn: Run, place: Path, configure: Callable[[str], None]) -> None:
    (place / "broken").mkdir()
    (place / "broken" / "yaml.py").write_text("1 / 0\n")
    configure("profiles: {}")

    brief = spawn("profile", "list", PYTHONPATH=str(place / "broken"))
    full = spawn("profile", "list", "--debug", PYTHONPATH=str(place / "broken"))

    assert brief.code == full.code == 1
    assert brief.err.startswith("error[internal]: ZeroDivisionError: ")
    assert "--debug" in brief.err
    assert "Traceback" not in brief.err
    assert "Traceback" in full.err


def test_a_reader_that_goes_away_is_no_traceback(place: Path) -> None:
    ours, theirs = os.pipe()
    os.close(ours)

    done = subprocess.run(
        [sys.executable, "-m", "omnigraph.cli", "completion", "bash"],
        cwd=place,
        stdout=theirs,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )

    os.close(theirs)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("words", [["-v"], ["--version"], ["snapshot", "-v"]])
def test_the_version_flag_is_a_small_v(run: Run, words: list[str]) -> None:
    ran = run(*words)

    assert (ran.code, ran.out) == (0, f"omnigraph {__version__}\n")
    assert run("-V").code == 2


def test_the_version_as_json(run: Run) -> None:
    assert run("version", "--json").out == f'{{\n  "version": "{__version__}",\n  "internal_schema_version": 4\n}}\n'


def test_without_words_the_program_shows_its_help(run: Run) -> None:
    assert "Usage: omnigraph" in run().out + run().err


def test_an_unknown_command_is_told_with_what_was_meant(run: Run) -> None:
    ran = run("snapsot")

    assert ran.code == 2
    assert "snapshot" in ran.err


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["version"],
        ["profile", "list"],
        ["completion", "bash"],
        ["lint", "--query", "queries.gq", "--schema", "schema.pg"],
        ["schema", "plan", "--from", "schema.pg", "--schema", "schema.pg"],
        ["snapshot", "--no-such-option"],
        ["snapshot"],
    ],
)
def test_what_opens_no_graph_loads_no_engine(place: Path, words: list[str]) -> None:
    script = (
        "import sys\n"
        "from omnigraph.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"print('heavy:', [each for each in {HEAVY!r} if each in sys.modules])\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", script, *words], cwd=place, capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout.splitlines()[-1] == "heavy: []"


# -- help --------------------------------------------------------------------------------------------------------------


def _commands(group: TyperGroup, *before: str) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        yield (*before, name)
        if isinstance(command, TyperGroup):
            yield from _commands(command, *before, name)


def _program() -> TyperGroup:
    found = typer.main.get_command(app)
    assert isinstance(found, TyperGroup)
    return found


@pytest.mark.parametrize("words", list(_commands(_program())), ids=" ".join)
def test_every_command_explains_itself_and_each_of_its_options(run: Run, words: tuple[str, ...]) -> None:
    long, short = run(*words, "--help"), run(*words, "-h")

    assert long.code == 0
    assert long.out == short.out
    assert f"Usage: omnigraph {' '.join(words)}" in long.out
    command = _program()
    for word in words:
        assert isinstance(command, TyperGroup)
        command = command.commands[word]  # type: ignore[assignment]
    assert command.help
    assert all(getattr(each, "help", None) for each in command.params), "every option says what it is for"


def test_scope_flags_are_shown_where_they_mean_something(run: Run) -> None:
    assert "--store" in run("snapshot", "--help").out
    assert "--store" not in run("version", "--help").out
    assert "--cluster" in run("lint", "--help").out
    assert "--cluster" not in run("snapshot", "--help").out
    assert "--yes" in run("branch", "delete", "--help").out
    assert "--yes" not in run("branch", "create", "--help").out
    assert "--server" not in run("--help").out


# -- completion --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_ask_the_program(run: Run, shell: str) -> None:
    script = run("completion", shell).out

    assert "_OMNIGRAPH_COMPLETE" in script


def test_commands_and_options_are_completed(spawn: Run) -> None:
    def completed(line: str) -> list[str]:
        words = line.split(" ")
        asked = {"_OMNIGRAPH_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
        return spawn(**asked).out.split()

    assert completed("omnigraph branch ") == ["create", "list", "delete", "merge"]
    assert "--if-commit" in completed("omnigraph mutate --")


# -- at a terminal -----------------------------------------------------------------------------------------------------


def _at_a_terminal(place: Path, *words: str, answer: str | None = None) -> tuple[int, str]:
    """Run with a terminal as all three streams; what was shown, and the exit code."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "omnigraph.cli", *words],
        cwd=place,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**REAL.environ, "COLUMNS": "120", "TERM": "xterm", "NO_COLOR": "1"},
    )
    os.close(theirs)
    if answer is not None:
        os.write(ours, f"{answer}\n".encode())
    shown = b""
    try:
        while chunk := os.read(ours, 4096):
            shown += chunk
    except OSError:  # the other end is closed, which is how a terminal says that it is over
        pass
    os.close(ours)
    return process.wait(timeout=60), shown.decode()


def test_a_person_sees_tables(place: Path, graph: str) -> None:
    code, shown = _at_a_terminal(place, "snapshot", graph)

    assert code == 0
    assert "published_dataset_version" not in shown
    assert "entities" in shown
    assert "Person" in shown


def test_a_person_is_asked_before_something_remote_is_destroyed(place: Path) -> None:
    code, shown = _at_a_terminal(place, "branch", "delete", "b", "--uri", "s3://no-such-bucket/g", answer="no")

    assert code == 1
    assert "Continue?" in shown
    assert "nothing was changed" in shown
