"""Failpoints: named points at which a test can make a real process die, stop, fail, lose an acknowledgement or wait.

    OMNIGRAPH_FAILPOINTS="store.write=kill@3"            die before the third durable step
    OMNIGRAPH_FAILPOINTS="store.write=stop@3"            stop there, as under SIGSTOP, until SIGCONT comes
    OMNIGRAPH_FAILPOINTS="table.committed=lost,init.claimed=delay:0.5"

They are off unless armed: `reach` then costs one lookup in an empty dictionary.
"""

from __future__ import annotations

import os
import re
import signal
from dataclasses import dataclass
from typing import Literal, get_args

from omnigraph.errors import InvalidInput
from omnigraph.world import REAL

ENVIRONMENT = "OMNIGRAPH_FAILPOINTS"

# Every name that `reach` is called with, and the state of the system when it is reached.
CATALOGUE = {
    "store.write": "a durable step is about to be taken: a control object, a table commit, a branch",
    "store.step": "the same, after the last check of the lease: a process suspended here continues without one",
    "table.committed": "a table's next version exists, and the caller has no acknowledgement yet",
    "init.claimed": "the lease on the location is held, and nothing else exists there",
    "init.before_manifest": "everything of a new graph exists except its manifest",
    "publish.before_write": "the rows of a publish are decided",
    "migration.legacy_open": "the lineage of an old graph is about to be read",
    "migration.before_stamp": "a migration step has done its work, and the format version is not written yet",
    "recovery.before_publish": "an unfinished operation is decided on, and its publish is about to happen",
    "recovery.before_audit": "an unfinished operation is finished or undone, and the audit record is not written yet",
    "optimize.staged": "compaction and indexes of all tables are staged; no writer has had to wait yet",
    "cleanup.decided": "the versions of a table to delete are chosen, and still exist",
    "commit.armed": "the sidecar exists and this writer is first in the queue; no table is committed",
    "commit.forked": "a branch has its own fork of a table, and nothing is committed on it",
    "commit.table_landed": "one of the operation's tables is committed",
    "schema.staged": "the new schema files exist beside the live ones, and nothing is visible",
    "schema.promoted": "the commit is visible and the schema files are in place, and the sidecar still exists",
    "commit.before_publish": "all tables are committed, and nothing is visible",
    "commit.published": "everything is visible, and the sidecar still exists",
    "branch.before_reference": "the branch lease is held, and the branch is about to be created or deleted",
}

Action = Literal["kill", "stop", "raise", "lost", "delay"]
_SPECIFICATION = re.compile(
    rf"(?P<name>[a-z_.]+)=(?P<action>{'|'.join(get_args(Action))})"
    r"(:(?P<seconds>[0-9]+(\.[0-9]+)?))?(@(?P<nth>[1-9][0-9]*))?"
)


class InjectedFaultError(OSError):
    """A failure that a test injected. An OSError, as the real ones are."""


@dataclass
class _Armed:
    action: Action
    argument: float
    skip: int


_armed: dict[str, _Armed] = {}


def arm(specification: str) -> None:
    """Arm failpoints: `name=action[:seconds][@nth]`, separated by commas. Replaces what was armed before."""
    points = dict(_parse(part.strip()) for part in specification.split(",") if part.strip())
    _armed.clear()
    _armed.update(points)


def _parse(part: str) -> tuple[str, _Armed]:
    match = _SPECIFICATION.fullmatch(part)
    if match is None or match["name"] not in CATALOGUE:
        raise InvalidInput(
            f"{part!r} is not a failpoint: write name=action[:seconds][@nth]; the names are {', '.join(CATALOGUE)}"
        )
    action: Action = match["action"]  # type: ignore[assignment]
    return match["name"], _Armed(action, float(match["seconds"] or 0), int(match["nth"] or 1) - 1)


def reach(name: str) -> None:
    """Fire the failpoint if it is armed."""
    if not _armed:
        return
    point = _armed.get(name)
    if point is None:
        return
    if point.skip > 0:
        point.skip -= 1
        return
    _act(name, point)


def _act(name: str, point: _Armed) -> None:
    if point.action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if point.action == "delay":
        REAL.sleep(point.argument)
        return
    del _armed[name]
    if point.action == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
        return
    if point.action == "lost":
        raise InjectedFaultError(f"error sending request: the answer was lost at {name}")
    raise InjectedFaultError(f"injected failure at {name}")


if REAL.environ.get(ENVIRONMENT):
    arm(REAL.environ[ENVIRONMENT])
