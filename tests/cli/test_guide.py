"""The examples of docs/cli.md: their files are written, their commands run, and they print what the guide shows.

A `console` block is a terminal session: `$` begins a command, `$ echo $?` shows its exit code. The lines below a
command are its stdout, or both its streams, one after the other. A line that the guide abbreviates ends with `…`.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from cli.conftest import Ran

    Run = Callable[..., Ran]

GUIDE = Path(__file__).parents[2] / "docs" / "cli.md"
_BLOCK = re.compile(r"^```(?P<kind>file|console)(?: (?P<name>\S+))?\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_ID = re.compile(r"\b(?!01A{24})0[0-9A-HJKMNP-TV-Z]{25}\b")


@dataclass
class Example:
    """A command, the lines that the guide shows below it, and its exit code."""

    command: str
    shown: list[str] = field(default_factory=list)
    code: int = 0


def _examples(text: str) -> list[Example]:
    found: list[Example] = []
    for command, *lines in (each.splitlines() for each in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]):
        if command == "echo $?":
            found[-1].code = int(lines[0])
        else:
            found.append(Example(command, lines))
    return found


def _is_shown(expected: list[str], printed: list[str]) -> bool:
    return len(expected) == len(printed) and all(
        line.startswith(wanted.removesuffix("…")) if wanted.endswith("…") else line == wanted
        for wanted, line in zip(expected, printed, strict=True)
    )


def test_the_guide_shows_what_the_commands_print(run: Run, place: Path) -> None:
    executed = 0
    for block in _BLOCK.finditer(GUIDE.read_text("utf-8")):
        if block["kind"] == "file":
            (place / block["name"]).write_text(block["text"])
            continue
        for example in _examples(block["text"]):
            program, *words = shlex.split(example.command)
            assert program == "omnigraph"
            ran = run(*words)
            out, err = (_ID.sub("<id>", each).splitlines() for each in (ran.out, ran.err))
            assert any(_is_shown(example.shown, each) for each in (out, out + err, err + out)), (example, out, err)
            assert ran.code == example.code, example.command
            executed += 1
    assert executed > 10
