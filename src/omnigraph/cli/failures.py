"""Errors for people: one message, an exit code, and the traceback only for those who ask.

0 done; 1 an error, a refusal, or a result that is not ok; 2 arguments that make no sense; 4 a lost `--if-commit`.
"""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING

from omnigraph.cli.output import note
from omnigraph.errors import InvalidInput

if TYPE_CHECKING:
    from types import TracebackType

    from omnigraph.errors import OmniGraphError

FAILED = 1
LOST_PRECONDITION = 4
# What to type next, where the message of the library speaks of its own calls.
_HINTS = {
    "branch_not_found": "`omnigraph branch list` tells which branches there are.",
    "not_found": "`omnigraph commit list` and `omnigraph tag list` tell which commits and tags there are.",
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
    """An error that nobody foresaw is told in two lines from now on."""
    sys.excepthook = _tell_briefly


def _tell_briefly(kind: type[BaseException], error: BaseException, _trace: TracebackType | None) -> None:
    note(f"error[internal]: {kind.__name__}: {error}")
    note("This is a defect of omnigraph. Run the command again with --debug and report what it shows.")
