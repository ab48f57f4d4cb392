"""Graphs of a cluster, found by what it has applied (surface §1.3)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cli.conftest import Ran

    Run = Callable[..., Ran]


def _cluster(root: Path, *graphs: str) -> None:
    (root / "__cluster").mkdir(parents=True)
    resources = {f"graph.{name}": {"digest": "0"} for name in graphs} | {"schema.x": {"digest": "0"}}
    (root / "__cluster" / "state.json").write_text(json.dumps({"applied_revision": {"resources": resources}}))


def _member(run: Run, place: Path, root: str, name: str) -> None:
    """Made before the cluster is there, since afterwards init is refused."""
    assert run("init", "--schema", "schema.pg", f"{place / root}/graphs/{name}.omni").code == 0


LINT = ("lint", "--query", "queries.gq")


def test_the_only_graph_of_a_cluster_is_taken(run: Run, place: Path, configure: Callable[[str], None]) -> None:
    _member(run, place, "c", "one")
    _cluster(place / "c", "one")
    configure(f"clusters: {{mine: {{root: {place / 'c'}}}}}\nprofiles: {{p: {{cluster: mine}}}}")

    assert run(*LINT, "--cluster", "c").code == 0
    assert run(*LINT, "--cluster", "mine").code == 0
    assert run(*LINT, "--cluster", "mine", "--graph", "one").code == 0
    assert run(*LINT, "--profile", "p").code == 0


def test_a_cluster_directory_says_where_it_stores(run: Run, place: Path) -> None:
    _member(run, place, "c", "one")
    _cluster(place / "c", "one")
    (place / "config").mkdir()
    (place / "config" / "cluster.yaml").write_text(f"version: 1\nstorage: {place / 'c'}\n")

    assert run(*LINT, "--cluster", "config").code == 0


def test_several_graphs_or_none_need_a_choice(run: Run, place: Path) -> None:
    _cluster(place / "several", "one", "two")
    _cluster(place / "none")

    assert "its graphs: one, two" in run(*LINT, "--cluster", "several").err
    assert "its graphs: one, two" in run(*LINT, "--cluster", "several", "--graph", "three").err
    assert "its graphs: none" in run(*LINT, "--cluster", "none").err
    assert "no cluster was applied" in run(*LINT, "--cluster", "nowhere").err


def test_init_leaves_the_graphs_of_a_cluster_to_it(run: Run, place: Path) -> None:
    _cluster(place / "c", "one")

    ran = run("init", "--schema", "schema.pg", f"{place}/c/graphs/two.omni")

    assert ran.code == 1
    assert "belongs to a cluster" in ran.err
    assert not (place / "c" / "graphs").exists()
