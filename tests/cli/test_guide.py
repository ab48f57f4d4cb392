"""docs/cli.md, carried out: its files are written, its commands run, and they print what the guide says.

In a `console` block `$` begins a command, `!` a line of stderr, `?` an exit code other than 0; the rest is stdout. A
line of stderr may leave off its end with `…`.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cli.conftest import Ran

    Run = Callable[..., Ran]

GUIDE = Path(__file__).parents[2] / "docs" / "cli.md"
_BLOCK = re.compile(r"^```(?P<kind>file|console)(?: (?P<name>\S+))?\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_ID = re.compile(r"\b(?!01A{24})0[0-9A-HJKMNP-TV-Z]{25}\b")


@dataclass
class Example:
    """A command and what the guide says it prints."""

    command: str
    out: list[str] = field(default_factory=list)
    err: list[str] = field(default_factory=list)
    code: int = 0


def _examples(text: str) -> Iterator[Example]:
    example: Example | None = None
    for line in text.splitlines():
        if line.startswith("$ "):
            if example is not None:
                yield example
            example = Example(line[2:])
            continue
        assert example is not None, "output before a command"
        if line.startswith("? "):
            example.code = int(line[2:])
        elif line.startswith("! "):
            example.err.append(line[2:])
        else:
            example.out.append(line)
    if example is not None:
        yield example


def _is_said(expected: list[str], said: list[str]) -> bool:
    if not expected:
        return True
    return len(expected) == len(said) and all(
        line.startswith(wanted.removesuffix("…")) if wanted.endswith("…") else line == wanted
        for wanted, line in zip(expected, said, strict=True)
    )


def test_the_guide_does_what_it_says(run: Run, place: Path) -> None:
    carried_out = 0
    for block in _BLOCK.finditer(GUIDE.read_text("utf-8")):
        if block["kind"] == "file":
            (place / block["name"]).write_text(block["text"])
            continue
        for example in _examples(block["text"]):
            program, *words = shlex.split(example.command)
            assert program == "omnigraph"
            ran = run(*words)
            assert _ID.sub("<id>", ran.out).splitlines() == example.out, example.command
            assert ran.code == example.code, example.command
            assert _is_said(example.err, ran.err.splitlines()), example.command
            carried_out += 1
    assert carried_out > 10
