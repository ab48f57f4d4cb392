"""The program as a process: exit codes, streams, tracebacks, start-up, help and completion."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from omnigraph import __version__

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cli.conftest import Ran

    Run = Callable[..., Ran]
    Terminal = Callable[..., tuple[int, str]]

ENGINES = ("duckdb", "pyspark", "pydantic", "sqlglot", "urllib3")
HEAVY = ("lance", "pyarrow", "numpy", "obstore", "rich", *ENGINES)


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


def test_an_interrupt_ends_quietly_with_130(place: Path) -> None:
    os.mkfifo(place / "slow.gq")
    process = subprocess.Popen(
        [sys.executable, "-m", "omnigraph.cli", "lint", "--schema", "schema.pg", "--query", "slow.gq"],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    # Opening it returns when the program has begun to read.
    writer = os.open(place / "slow.gq", os.O_WRONLY)

    process.send_signal(signal.SIGINT)
    shown = process.communicate(timeout=60)

    os.close(writer)
    assert (process.returncode, *shown) == (130, b"", b"")


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
        ["load", "--help"],
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
    assert _loaded(place, words, HEAVY) == "[]"


@pytest.mark.parametrize(
    "words", [["snapshot"], ["branch", "list"], ["commit", "list"], ["schema", "show"]], ids=" ".join
)
def test_looking_at_a_graph_loads_nothing_that_queries_or_writes(place: Path, graph: str, words: list[str]) -> None:
    assert _loaded(place, [*words, graph], ENGINES) == "[]"


def _loaded(place: Path, words: list[str], modules: tuple[str, ...]) -> str:
    """Which of these modules a run of the program has loaded."""
    script = (
        "import sys\n"
        "from omnigraph.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"print([each for each in {modules!r} if each in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *words], cwd=place, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.splitlines()[-1]


# -- completion --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_completion_scripts_ask_the_program(run: Run, shell: str) -> None:
    assert "_OMNIGRAPH_COMPLETE" in run("completion", shell).out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_read_by_their_shells(run: Run, place: Path, shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not on this machine")
    (place / "script").write_text(run("completion", shell).out)

    checked = subprocess.run([program, "-n", "script"], cwd=place, capture_output=True, text=True, timeout=60)

    assert (checked.returncode, checked.stderr) == (0, "")


def test_commands_and_options_are_completed(spawn: Run) -> None:
    def completed(line: str) -> list[str]:
        words = line.split(" ")
        asked = {"_OMNIGRAPH_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
        return spawn(**asked).out.split()

    assert completed("omnigraph sn") == ["snapshot"]
    assert "ingest" not in completed("omnigraph ")
    assert "--store" in completed("omnigraph --")
    assert completed("omnigraph branch ") == ["create", "list", "delete", "merge"]
    assert "--if-commit" in completed("omnigraph mutate --")


# -- at a terminal -----------------------------------------------------------------------------------------------------


def test_a_person_sees_tables(at_a_terminal: Terminal, graph: str) -> None:
    code, shown = at_a_terminal("snapshot", graph)

    assert code == 0
    assert "published_dataset_version" not in shown
    assert "entities" in shown
    assert "Person" in shown


def test_a_person_is_asked_before_something_remote_is_destroyed(at_a_terminal: Terminal) -> None:
    code, shown = at_a_terminal("branch", "delete", "b", "--uri", "s3://no-such-bucket/g", answer="no")

    assert code == 1
    assert "Continue?" in shown
    assert "nothing was changed" in shown
