"""The examples run, and do what they say."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def _run(name: str, *words: str, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name, *words], cwd=cwd, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_agents_remember_on_branches_of_their_own(tmp_path: Path) -> None:
    said = _run("agent_memory.py", str(tmp_path / "memory.omni"), cwd=tmp_path).splitlines()
    assert "merge alan:  node:Topic/lance: DivergentUpdate" in said
    assert "main now is   [{'t.name': 'lance', 't.sure': 0.9, 't.owner': 'alan', 'sources': 2}]" in said


def test_a_consumer_of_changes_has_a_true_copy(tmp_path: Path) -> None:
    first, *rows = _run("change_feed.py", str(tmp_path), cwd=tmp_path).splitlines()
    assert first == "5 changes since the last time, 0 after them"
    assert rows == [
        """('Person', None, None, '{"age": 37, "name": "Ada"}')""",
        """('Person', None, None, '{"age": null, "name": "Cy"}')""",
        "('Knows', 'Cy', 'Ada', '{}')",
    ]


@pytest.mark.spark
def test_a_spark_job_loads_once_and_writes_its_findings_back(tmp_path: Path) -> None:
    said = subprocess.run(
        [sys.executable, EXAMPLES / "spark_job.py", tmp_path, "run-1"], capture_output=True, text=True, timeout=280
    )
    assert said.stderr == ""
    assert said.stdout.splitlines() == [
        "loaded 100 rows on spark as one commit",
        "the same run again: nothing to do",
        "the ranks of 50 accounts add up to 1.0",
    ]


def test_the_notebook_runs_from_top_to_bottom(tmp_path: Path) -> None:
    """As a kernel would: each cell's last expression is shown, in rich form where it has one."""
    cells = json.loads((EXAMPLES / "tour.ipynb").read_text("utf-8"))["cells"]
    scope: dict[str, object] = {}
    shown: list[str] = []
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        assert cell["outputs"] == [], "the notebook is kept without outputs"
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "cell", "exec"), scope)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), scope)  # type: ignore[attr-defined]
            rich = getattr(value, "_repr_html_", None)
            shown.append(rich() if rich is not None else repr(value))
    assert any("<table" in each and "Ben" in each for each in shown)
    assert "([{'p.born': 1970}], [{'p.born': 1971}])" in shown
