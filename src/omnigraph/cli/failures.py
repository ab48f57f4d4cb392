"""Errors for people: one message, an exit code, and the traceback only for those who ask.

0 done; 1 an error, a refusal, or a result that is not ok; 2 arguments that make no sense; 4 a lost `--if-commit`.
"""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING

from omnigraph.cli.output import note

if TYPE_CHECKING:
    from types import TracebackType

    from omnigraph.errors import OmniGraphError

FAILED = 1
LOST_PRECONDITION = 4


def report(error: OmniGraphError, *, debug: bool) -> None:
    """Say what went wrong, with the stable code of the error."""
    if debug:
        traceback.print_exception(error)
    note(f"error[{error.code}]: {error.message}")


def hide_tracebacks() -> None:
    """An error that nobody foresaw is told in two lines from now on."""
    sys.excepthook = _tell_briefly


def _tell_briefly(kind: type[BaseException], error: BaseException, _trace: TracebackType | None) -> None:
    note(f"error[internal]: {kind.__name__}: {error}")
    note("This is a defect of omnigraph. Run the command again with --debug and report what it shows.")
