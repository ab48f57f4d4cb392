"""A merge of very many changed rows: memory follows the budget, not the rows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROWS = 2_000_000
# Two million rows, as they were and as they are, are 400 MB; held in memory, a merge of them took 950 MB.
MOST_MB = 450


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_two_million_changed_rows_merge_in_bounded_memory(tmp_path: Path) -> None:
    script, place = str(Path(__file__).with_name("large_merge.py")), str(tmp_path / "g")
    subprocess.run([sys.executable, script, "build", place, str(ROWS)], check=True)
    run = subprocess.run([sys.executable, script, "merge", place, "local"], capture_output=True, text=True, check=True)
    rows, before, after, seconds, age, city = run.stdout.split()
    print(f"{rows} rows merged in {seconds} s; {before} MB before, {after} MB at most")
    assert (int(rows), int(age), city) == (ROWS, 2, "here")
    assert int(after) - int(before) < MOST_MB
