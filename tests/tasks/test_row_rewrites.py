"""Rows are replaced by one rule, in memory, spilled, and by tasks: the same rows, counts and row ids."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.history.merge.partitioned.deltas import SpillDirectory
from omnigraph.history.merge.partitioned.row_rewrite import SpilledChange, stage_large
from omnigraph.load.bulk.row_rewrite import find_replacements, stage_merge
from omnigraph.load.rows import rows_schema
from omnigraph.storage.lance.data_files import write_rows
from omnigraph.storage.tables.row_rewrite import STABLE_IDS_SPAN, stage_rewrite
from omnigraph.storage.tables.staging import commit_staged
from omnigraph.tasks.local_runner import LocalRunner
from omnigraph.tasks.staged_rows import StagedFragment, StagedRows
from omnigraph.transaction.read_view import ReadView
from omnigraph.world import REAL

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.storage.tables.staging import Staged

KEY = "node:Person"
SCHEMA = "node Person { name: String @key  age: I32? }"
FAR = STABLE_IDS_SPAN + 10


@dataclass(frozen=True)
class Shuffling(LocalRunner):
    """A runner for which every load is a large one, whose ids are matched by an exchange."""

    def setting(self, name: str) -> str | None:
        return "0" if name == "smallLoad" else None


def person(number: int) -> str:
    return f"p{number:06d}"


def people(numbers: range | list[int], age: int) -> pa.Table:
    names = pa.array([person(each) for each in numbers], pa.string())
    return pa.table({"id": names, "name": names, "age": pa.array([age] * len(numbers), pa.int32())})


def build(tmp_path: Path, rows: int, files: int = 1) -> og.Graph:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    for each in range(files):
        batch = people(range(each * rows // files, (each + 1) * rows // files), 1).drop(["id"])
        graph.load({"Person": batch}, mode="append", engine="local")
    return graph


def view_of(graph: og.Graph) -> ReadView:
    return ReadView(graph.snapshot(), graph._manifest.stores.tables)


def in_memory(graph: og.Graph, puts: pa.Table, deletes: list[str], _: Path) -> Staged:
    view = view_of(graph)
    return stage_rewrite(view.table(KEY), puts, deletes, tables=view.tables)


def spilled(graph: og.Graph, puts: pa.Table, deletes: list[str], folder: Path) -> Staged:
    view = view_of(graph)
    folder.mkdir(exist_ok=True)
    change = SpilledChange(folder, 4)
    change.put(puts)
    change.delete(pa.table({"id": pa.array(deletes, pa.string())}))
    with SpillDirectory(REAL) as spill:
        return stage_large(view.table(KEY), tables=view.tables, change=change, spill=spill, group_bytes=10_000)


def staged_rows(graph: og.Graph, puts: pa.Table) -> StagedRows:
    """The rows as tasks of a load would have written them, in files of at most 300 rows."""
    view, kind = view_of(graph), graph.catalog.nodes["Person"]
    entry, location = view.entry(KEY), view.tables.location
    fragments, schema = [], rows_schema(kind)
    for start in range(0, puts.num_rows, 300):
        batches = iter(puts.select(schema.names).slice(start, 300).combine_chunks().to_batches())
        (made,) = write_rows(batches, location.child(entry.path), None, schema, 300, "append")
        fragments.append(StagedFragment(0, start, made.physical_rows, json.dumps(made.to_json())))
    return StagedRows(kind, location, entry.path, entry.branch, tuple(fragments))


def loaded(graph: og.Graph, puts: pa.Table, runner: LocalRunner) -> Staged:
    view = view_of(graph)
    found = find_replacements(runner, view, staged_rows(graph, puts))
    assert found is not None
    return stage_merge(view.table(KEY), runner, found, REAL)


def facts(staged: Staged) -> dict[str, tuple[int, int]]:
    table: Any = commit_staged(staged).table.read(["id", "age", "_rowid"]).to_pydict()
    return {row_id: (age, number) for row_id, age, number in zip(*table.values(), strict=True)}


def small_load(graph: og.Graph, puts: pa.Table, _: list[str], __: Path) -> Staged:
    return loaded(graph, puts, LocalRunner())


def large_load(graph: og.Graph, puts: pa.Table, _: list[str], __: Path) -> Staged:
    return loaded(graph, puts, Shuffling())


WAYS = {"memory": in_memory, "spilled": spilled, "load": small_load, "large load": large_load}


@pytest.mark.parametrize("way", WAYS)
def test_rows_far_apart_get_new_row_ids_and_rows_close_together_keep_theirs(tmp_path: Path, way: str) -> None:
    graph = build(tmp_path, FAR)
    stage = WAYS[way]
    near = facts(stage(graph, people([1, 2, 5, FAR], 2), [], tmp_path / "near"))
    assert {number: near[person(number)] for number in (1, 2, 5)} == {1: (2, 1), 2: (2, 2), 5: (2, 5)}
    again = build(tmp_path / "again", FAR)
    far = facts(stage(again, people([1, FAR - 1, FAR], 2), [], tmp_path / "far"))
    assert all(far[person(number)] == (2, far[person(number)][1]) for number in (1, FAR - 1, FAR))
    assert sorted(far[person(number)][1] for number in (1, FAR - 1, FAR)) == [FAR, FAR + 1, FAR + 2]
    assert len(far) == FAR + 1
    assert far[person(2)] == (1, 2)


@pytest.mark.parametrize("seed", range(3))
def test_every_way_writes_the_same_rows_with_the_same_row_ids(tmp_path: Path, seed: int) -> None:
    chance, rows, told = np.random.default_rng(seed), 2_000, {}
    numbers = chance.permutation(rows + 300)[: chance.integers(1, 1_500)].tolist()
    for way, stage in WAYS.items():
        graph = build(tmp_path / way, rows, files=3)
        staged = stage(graph, people(numbers, 2), [], tmp_path / way)
        counts = (staged.inserted, staged.updated, staged.deleted)
        after = facts(staged)
        assert len({number for _, number in after.values()}) == len(after)
        kept = {row_id: number for row_id, (_, number) in after.items() if row_id < person(rows)}
        told[way] = counts, {row_id: age for row_id, (age, _) in after.items()}, kept
    assert told["spilled"] == told["load"] == told["large load"] == told["memory"]
    assert told["memory"][2] == {person(each): each for each in range(rows)}


@pytest.mark.parametrize("seed", range(3))
def test_deletes_are_counted_alike_in_memory_and_spilled(tmp_path: Path, seed: int) -> None:
    told = {}
    touched = np.random.default_rng(seed).permutation(1_200)[:500].tolist()
    puts, deletes = touched[:300], [person(each) for each in touched[300:]]
    for way in ("memory", "spilled"):
        staged = WAYS[way](build(tmp_path / way, 1_000, files=2), people(puts, 2), deletes, tmp_path / way)
        counts = (staged.change, staged.inserted, staged.updated, staged.deleted)
        told[way] = counts, {row_id: age for row_id, (age, _) in facts(staged).items()}
    assert told["spilled"] == told["memory"]
