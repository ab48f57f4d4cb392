"""The child's side of `hands.py`: say that everything is imported, take one job, do it, answer.

A job is pickled on standard input, the answer on standard output. Killed half-way, it simply never answers.
"""

from __future__ import annotations

import importlib
import os
import pickle
import sys
from typing import TYPE_CHECKING

from omnigraph import failpoints
from omnigraph.errors import OmniGraphError
from omnigraph.manifest import graph_manifest

if TYPE_CHECKING:
    from manifest.hands import Job

_imported_before_the_job_is_timed = graph_manifest


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    job: Job = pickle.load(sys.stdin.buffer)
    os.environ.update(job.environment)  # noqa: TID251
    module, _, name = job.work.partition(":")
    work = getattr(importlib.import_module(module), name)
    failpoints.arm(job.failpoints)
    pickle.dump("ready", answers)
    answers.flush()
    sys.stdin.buffer.readline()
    try:
        answer = ("done", work(*job.arguments))
    except (OmniGraphError, failpoints.InjectedFaultError) as error:
        answer = ("raised", error)
    pickle.dump(answer, answers)
    answers.flush()
    # Lance's threads take long to stop, and nothing is left to do for them.
    os._exit(0)


if __name__ == "__main__":
    main()
