"""`optimize`, `cleanup` and `repair`: what they print, what they ask before they destroy, and how they end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import lance
import pytest

import omnigraph as og

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cli.conftest import Ran

    Run = Callable[..., Ran]

SCHEMA = "node Person { name: String @key  age: I64? }\n"
ADD = "query q($n: String) { insert Person { name: $n } }"


@pytest.fixture
def graph(place: Path) -> og.Graph:
    made = og.init(place / "graph.omni", schema=SCHEMA, auto_compact=False)
    for number in range(4):
        made.mutate(ADD, {"n": f"p{number}"})
    return made


def foreign(graph: og.Graph) -> lance.LanceDataset:
    return lance.dataset(graph._manifest.stores.tables.open(graph.snapshot()["node:Person"].pin).handle.uri)


def test_optimize_tells_what_it_did(run: Run, graph: og.Graph) -> None:
    ran = run("optimize", "graph.omni")
    assert ran.code == 0
    assert ran.out.startswith("node:Person: 4 fragments became 1, indexed id_idx")
    assert "omnigraph optimize →" in ran.err
    assert run("optimize", "graph.omni").out == "node:Person: nothing to do\n"


def test_optimize_as_json(run: Run, graph: og.Graph) -> None:
    (told,) = json.loads(run("optimize", "graph.omni", "--json").out)["datasets"]
    assert told["type_key"] == "node:Person"
    assert (told["fragments_removed"], told["fragments_added"], told["committed"]) == (4, 1, True)
    assert told["published_dataset_version"] == told["lance_head_version"]
    assert (told["skipped"], told["pending_indexes"]) == (None, [])


def test_a_table_that_another_program_moved_is_skipped(run: Run, graph: og.Graph) -> None:
    foreign(graph).delete("name = 'p0'")
    ran = run("optimize", "graph.omni")
    assert (ran.code, ran.out) == (0, "node:Person: skipped (drift_needs_repair)\n")


def test_cleanup_only_tells_until_it_is_confirmed(run: Run, graph: og.Graph) -> None:
    ran = run("cleanup", "graph.omni", "--keep", "1", "--older-than", "7d")
    assert (ran.code, ran.out) == (0, "")
    assert "would keep the newest 1 commits of each branch and everything of the last 7d" in ran.err
    planned = json.loads(run("cleanup", "graph.omni", "--keep", "1", "--grace", "0s", "--dry-run", "--json").out)
    assert planned["dry_run"]
    done = json.loads(run("cleanup", "graph.omni", "--keep", "1", "--grace", "0s", "--confirm", "--json").out)
    assert done["datasets"] == planned["datasets"]
    assert (done["keep_versions"], done["older_than_secs"]) == (1, None)
    (people,) = [each for each in done["datasets"] if each["type_key"] == "node:Person"]
    assert people["old_versions_removed"] == 4
    assert people["bytes_removed"] > 0
    assert "removed 0 versions" in run("cleanup", "graph.omni", "--keep", "1", "--confirm").out


def test_cleanup_needs_to_know_what_to_keep(run: Run, graph: og.Graph) -> None:
    assert run("cleanup", "graph.omni", "--confirm").code == 1
    for wrong in ("7x", "d", "1.5h", "-1d"):
        ran = run("cleanup", "graph.omni", f"--older-than={wrong}", "--confirm")
        assert ran.code == 1, wrong
        assert "not a duration" in ran.err


def test_repair_looks_and_takes_and_refuses(run: Run, graph: og.Graph) -> None:
    assert run("repair", "graph.omni").out == "every table is where the graph says\n"
    foreign(graph).optimize.compact_files()
    assert "verified_maintenance [ReserveFragments, Rewrite] preview" in run("repair", "graph.omni").out
    assert "healed" in run("repair", "graph.omni", "--confirm").out
    foreign(graph).delete("name = 'p0'")
    ran = run("repair", "graph.omni", "--confirm", "--json")
    (told,) = json.loads(ran.out)["datasets"]
    assert ran.code == 1
    assert (told["classification"], told["action"], told["operations"]) == ("suspicious", "refused", ["Delete"])
    assert run("repair", "graph.omni", "--force").code == 1
    ran = run("repair", "graph.omni", "--confirm", "--force")
    assert ran.code == 0
    assert "forced" in ran.out
