"""The names that people use: exported, documented, and cheap to import."""

from __future__ import annotations

import inspect
import subprocess
import sys

import omnigraph as og


def test_every_public_name_is_there_and_documented() -> None:
    for name in og.__all__:
        found = getattr(og, name)
        assert inspect.getdoc(found), f"omnigraph.{name} says nothing of itself"


def test_every_public_method_of_the_graph_is_documented() -> None:
    for name, member in inspect.getmembers(og.Graph):
        if not name.startswith("_"):
            assert inspect.getdoc(member), f"Graph.{name} says nothing of itself"


def test_a_name_that_is_not_there_is_an_ordinary_error() -> None:
    assert not hasattr(og, "nonsense")


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = ("lance", "pyarrow", "duckdb", "pyspark", "lark", "sqlglot")
    code = f"import sys, omnigraph; print([each for each in {heavy} if each in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
