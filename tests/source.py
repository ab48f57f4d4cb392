"""The source as a tree, for tests that hold it to a rule."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent / "src" / "omnigraph"


@cache
def modules() -> dict[str, ast.Module]:
    """Every module by its path below the package, such as `storage/tables/staging.py`."""
    return {
        file.relative_to(ROOT).as_posix(): ast.parse(file.read_text(), str(file)) for file in sorted(ROOT.rglob("*.py"))
    }
