"""branch merge --engine: who works on a merge, and how very many conflicts are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.cli.frame.arguments import say_conflicts
from omnigraph.errors.commits import Conflict
from omnigraph.graph import backends
from omnigraph.history.merge.partitioned.hash_partitions import MergeBudget

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from cli.conftest import Ran

    Run = Callable[..., Ran]


def test_a_large_merge_is_told_like_any_other(run: Run, graph: str, add: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "BUDGET", MergeBudget(bytes=0))
    add("Ada")
    run("branch", "create", "review", "--uri", graph)
    add("Bo", "--branch", "review")
    merge = ("branch", "merge", "review", "--uri", graph, "--engine", "local")
    assert run(*merge, "--dry-run").out == "would merge review into main: fast_forward, 0 conflicts\n"
    assert run(*merge).out == "merged review into main: fast_forward\n"
    people = run("query", "everybody", "--query", "queries.gq", "--store", graph, "--format", "csv").out
    assert [line.partition(",")[0] for line in people.split()[1:]] == ["Ada", "Bo"]


def test_an_engine_that_is_not_there_is_a_mistake_of_use(run: Run, graph: str) -> None:
    ran = run("branch", "merge", "review", "--uri", graph, "--engine", "dask")
    assert ran.code == 2
    assert "'dask' is not one of" in ran.err


def test_conflicts_that_are_not_listed_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    say_conflicts([Conflict("DivergentInsert", "node:Person", "Ada", "both")], 7)
    assert capsys.readouterr().out == "  DivergentInsert node:Person Ada: both\n  and 7 more\n"
