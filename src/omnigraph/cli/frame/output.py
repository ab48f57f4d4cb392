"""Prints results on stdout and everything else on stderr, reports errors, and replaces files atomically.

A terminal gets tables; a pipe gets the plain lines that scripts read. An error is one message and an exit code, with a
traceback only on request. Exit codes: 0 done; 1 an error, a refusal, or a result that is not ok; 2 invalid arguments; 4
a lost `--if-commit`. A file is replaced as a whole or not at all: neither another process nor a crash sees half of it.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from omnigraph.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType

    from omnigraph.errors import OmniGraphError


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
    """Whether stdout is a terminal."""
    return sys.stdout.isatty()


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """Print a table; numbers are right-aligned."""
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
    """Show a status on stderr while a command runs; nothing unless stderr is a terminal."""
    from rich.console import Console

    return Console(stderr=True).status(what)


FAILED = 1
LOST_PRECONDITION = 4
# The next command to type, for messages of the library that name its own calls.
_HINTS = {
    "branch_not_found": "`omnigraph branch list` lists the branches.",
    "not_found": "`omnigraph commit list` and `omnigraph tag list` list the commits and tags.",
}
_PARAMETERS = 'parameters are given as --params \'{"name": "value"}\' or in a file with --params-file.'


def report(error: OmniGraphError, *, debug: bool, source_name: str | None = None) -> None:
    """Say what went wrong, with the stable code of the error. `source_name`: the file that a query came from."""
    if debug:
        traceback.print_exception(error)
    message = error.message if source_name is None else error.message.replace("<text>:", f"{source_name}:")
    note(f"error[{error.code}]: {message}")
    hint = _PARAMETERS if message.startswith("param '") else _HINTS.get(error.code)
    if hint is not None:
        note(f"hint: {hint}")


def unusable_file(error: OSError) -> InvalidInput:
    """A file of the user's that cannot be read or written."""
    return InvalidInput(f"{error.filename}: {error.strerror}. Check the path and its permissions.")


def hide_tracebacks() -> None:
    """Print unexpected errors in two lines from now on."""
    sys.excepthook = _print_briefly


def _print_briefly(kind: type[BaseException], error: BaseException, _trace: TracebackType | None) -> None:
    note(f"error[internal]: {kind.__name__}: {error}")
    note("This is a bug in omnigraph. Run the command again with --debug and report the output.")


def replace_whole_file(path: str, chunks: Iterable[bytes]) -> None:
    """Write the chunks beside the file, then put them in its place. On any failure the old file stays as it was."""
    target = Path(path).absolute()
    if not target.parent.is_dir():
        raise InvalidInput(f"there is no directory {target.parent} to write {target.name} in.")
    beside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    with _lock(target.with_name(f"{target.name}.lock")):
        try:
            written = _write(beside, chunks)
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)
        _sync_directory(target.parent)
        if target.stat().st_ino != written:
            raise InvalidInput(f"{target} was replaced by another program at the same time: run the command again.")


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """One at a time; the lock file stays, so that everybody locks the same one."""
    with path.open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InvalidInput(f"another process is writing this file: it holds {path}.") from error
        yield


def _write(path: Path, chunks: Iterable[bytes]) -> int:
    with path.open("wb") as file:
        for chunk in chunks:
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
        return os.fstat(file.fileno()).st_ino


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
