"""Failpoints: every one has a name that is used and explained, and does to a process what it says."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from omnigraph import failpoints
from omnigraph.errors import InvalidInput
from omnigraph.failpoints import CATALOGUE, ENVIRONMENT, InjectedFaultError, arm, reach
from omnigraph.world import REAL
from source import modules

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    """What a test arms is gone when it ends; what the environment of this run armed is not its business."""
    yield
    arm("")


def reached_names() -> list[tuple[str, object]]:
    """Every call of `reach` in the source, and the name it is called with."""
    return [
        (f"{file}:{node.lineno}", node.args[0].value if isinstance(node.args[0], ast.Constant) else None)
        for file, tree in modules().items()
        if any(_imports_reach(node) for node in ast.walk(tree))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "reach"
    ]


def _imports_reach(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "omnigraph.failpoints"


def test_every_place_that_is_reached_has_a_name_in_the_catalogue() -> None:
    assert [place for place, name in reached_names() if name not in CATALOGUE] == []


def test_every_name_in_the_catalogue_is_reached_somewhere_and_explained() -> None:
    assert sorted(CATALOGUE) == sorted({str(name) for _, name in reached_names()})
    assert all(CATALOGUE.values())


@pytest.mark.parametrize(
    "specification",
    [
        "no.such.place=kill",
        "store.write",
        "store.write=",
        "store.write=explode",
        "store.write=kill@0",
        "store.write=kill@-1",
        "store.write=kill@x",
        "store.write=delay:soon",
        "store.write=delay:-1",
        "=kill",
        "store.write=kill=raise",
        "store.write=raise;init.claimed=raise",
    ],
)
def test_what_is_not_a_failpoint_is_refused_and_leaves_what_was_armed(specification: str) -> None:
    arm("init.claimed=raise")
    with pytest.raises(InvalidInput, match="failpoint"):
        arm(specification)
    with pytest.raises(InjectedFaultError):
        reach("init.claimed")


def test_a_fault_happens_once_and_at_the_named_place() -> None:
    arm("store.write=raise")
    reach("init.claimed")
    with pytest.raises(InjectedFaultError, match=r"store\.write"):
        reach("store.write")
    reach("store.write")


def test_a_fault_can_wait_for_the_nth_time() -> None:
    arm("store.write=raise@3")
    reach("store.write")
    reach("store.write")
    with pytest.raises(InjectedFaultError):
        reach("store.write")
    reach("store.write")


def test_several_places_are_armed_at_once_and_the_next_arming_replaces_them() -> None:
    arm(" store.write=raise , init.claimed=lost ,")
    arm("init.claimed=lost")
    reach("store.write")
    with pytest.raises(InjectedFaultError, match="error sending request"):
        reach("init.claimed")


def test_an_injected_fault_looks_like_a_real_one() -> None:
    arm("store.write=raise")
    with pytest.raises(OSError, match="injected"):
        reach("store.write")


def test_a_delay_waits_every_time() -> None:
    arm("store.write=delay:0.05@2")
    began = time.monotonic()
    reach("store.write")
    assert time.monotonic() - began < 0.05
    for _ in range(2):
        reach("store.write")
    assert time.monotonic() - began >= 0.1


def test_nothing_happens_when_nothing_is_armed() -> None:
    arm("")
    for name in CATALOGUE:
        reach(name)


CHILD = """
from omnigraph.failpoints import reach
for turn in range(4):
    print(turn, flush=True)
    reach("store.write")
"""


def run(specification: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CHILD],
        env={**REAL.environ, ENVIRONMENT: specification},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_kill_really_kills_a_process_that_was_armed_by_its_environment() -> None:
    child = run("store.write=kill@3")
    assert child.returncode == -signal.SIGKILL
    assert child.stdout.split() == ["0", "1", "2"]


def test_a_misspelt_environment_stops_the_process_before_it_begins() -> None:
    child = run("store.wirte=kill")
    assert child.returncode == 1
    assert "store.wirte" in child.stderr
    assert child.stdout == ""


def test_this_process_is_not_armed() -> None:
    assert failpoints._armed == {}


def test_a_process_that_is_stopped_goes_on_where_it_stood() -> None:
    script = "from omnigraph.failpoints import arm, reach; arm('store.write=stop'); reach('store.write'); print('on')"
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT) is not None
    process.send_signal(signal.SIGCONT)
    assert process.communicate(timeout=30)[0] == b"on\n"
