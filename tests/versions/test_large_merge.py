"""A merge of very many changed rows: they are held as Arrow, once or twice, and never as Python objects."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROWS = 2_000_000
# Two million rows of three columns are 80 MB; as Python objects they would be more than a thousand.
MOST_MB = 1_000


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_million_changed_rows_merge_in_bounded_memory(tmp_path: Path) -> None:
    script = Path(__file__).with_name("large_merge.py")
    run = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "g"), str(ROWS)], capture_output=True, text=True, check=True
    )
    rows, before, after, age, city = run.stdout.split()
    print(f"{rows} rows merged; at most {before} MB before, {after} MB with the merge")
    assert (int(rows), int(age), city) == (ROWS, 2, "here")
    assert int(after) - int(before) < MOST_MB
