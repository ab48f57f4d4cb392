"""Run a command for as long as standard input stays open: `until_parent_dies.py COMMAND...`.

A test run that is killed cannot stop its servers, so they must not outlive it by themselves. Its end of the pipe closes
with it, whichever of its threads made the pipe.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys

PR_SET_PDEATHSIG = 1


def main(command: list[str]) -> int:
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=_die_with_this_process)
    while process.poll() is None:
        readable, _, _ = select.select([sys.stdin], [], [], 0.05)
        if readable and not os.read(sys.stdin.fileno(), 1_024):
            process.kill()
    return process.wait()


def _die_with_this_process() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
