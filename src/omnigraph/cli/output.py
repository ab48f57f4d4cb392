"""What a command prints: results on stdout, everything else on stderr.

A terminal gets tables; a pipe gets the plain lines that scripts read.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractContextManager


def say(text: str = "") -> None:
    """A line of the result."""
    typer.echo(text)


def say_json(value: object) -> None:
    """The result as JSON, for programs."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def note(text: str) -> None:
    """A line that is not part of the result."""
    typer.echo(text, err=True)


def is_terminal() -> bool:
    """Whether a person is looking at stdout."""
    return sys.stdout.isatty()


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """A table for people; numbers stand to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    held = [list(row) for row in rows]
    table = Table(title=title, box=SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for at, column in enumerate(columns):
        numeric = bool(held) and all(isinstance(row[at], int | float) for row in held)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in held:
        table.add_row(*(Text("" if value is None else str(value)) for value in row))
    Console().print(table)


def working(what: str) -> AbstractContextManager[object]:
    """A sign of life on stderr while something takes its time; nothing where nobody looks."""
    from rich.console import Console

    return Console(stderr=True).status(what)
