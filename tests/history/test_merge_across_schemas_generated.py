"""Random changes of schema and of rows on two sides: a merge makes what a model on dictionaries says it makes."""

from __future__ import annotations

import datetime as dt
import random  # noqa: TID251
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

import omnigraph as og
from history.model import merge_rows
from omnigraph.errors import MergeConflicts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Row = dict[str, Any]
Rows = dict[str, Row]

VALUES: dict[str, list[Any]] = {
    "I32": [1, 2, -3],
    "I64": [2**40, 1, 2],
    "F32": [0.5, 1.5],
    "F64": [0.5, 1e300],
    "String": ["", "a", "b"],
}
WIDER = {"I32": "I64", "F32": "F64"}
DEFAULTS: dict[str, tuple[str, Any]] = {"I32": ("7", 7), "String": ('"new"', "new"), "F64": ("2.5", 2.5)}


@dataclass(frozen=True)
class Column:
    kind: str
    words: str = "?"

    @property
    def required(self) -> bool:
        return "default" in self.words

    def value(self, rng: random.Random) -> Any:
        return rng.choice(VALUES[self.kind] + ([] if self.required else [None]))


@dataclass(frozen=True)
class Shape:
    """One type as a schema has it, and how rows of the shape before come into it."""

    name: str = "Thing"
    hint: str = ""
    columns: dict[str, Column] = field(
        default_factory=lambda: {"a": Column("I32"), "b": Column("String"), "c": Column("F32")}
    )
    carry: Callable[[Row], Row] = dict

    @property
    def schema(self) -> str:
        columns = "  ".join(f"{name}: {each.kind}{each.words}" for name, each in sorted(self.columns.items()))
        return f"node {self.name} {self.hint}{{ k: String @key  {columns} }}"

    def row(self, rng: random.Random, name: str) -> Row:
        return {"k": name, **{each: column.value(rng) for each, column in sorted(self.columns.items())}}

    def next(self, rng: random.Random, number: int) -> Shape:
        """The shape after one change."""
        columns = {name: Column(each.kind, each.words.partition(" @rename")[0]) for name, each in self.columns.items()}
        chosen, new = rng.choice(sorted(columns)), f"p{number}"
        match rng.choice(["add", "rename", "drop", "widen", "type"]):
            case "rename":
                old = columns.pop(chosen)
                columns[new] = Column(old.kind, f'{old.words} @rename_from("{chosen}")')
                return Shape(self.name, "", columns, lambda row: _renamed(row, chosen, new))
            case "drop" if len(columns) > 1:
                del columns[chosen]
                return Shape(self.name, "", columns, lambda row: _without(row, chosen))
            case "widen" if columns[chosen].kind in WIDER and not columns[chosen].required:
                columns[chosen] = Column(WIDER[columns[chosen].kind])
                return Shape(self.name, "", columns)
            case "type":
                return Shape(f"Thing{number}", f'@rename_from("{self.name}") ', columns)
            case _:
                kind = rng.choice(sorted(DEFAULTS))
                text, value = rng.choice([("?", None), (f" @default({DEFAULTS[kind][0]})", DEFAULTS[kind][1])])
                columns[new] = Column(kind, text)
                return Shape(self.name, "", columns, lambda row: {**row, new: value})


def _renamed(row: Row, old: str, new: str) -> Row:
    return {new if each == old else each: value for each, value in row.items()}


def _without(row: Row, gone: str) -> Row:
    return {each: value for each, value in row.items() if each != gone}


def carried(rows: Rows, shapes: list[Shape]) -> Rows:
    for shape in shapes:
        rows = {name: shape.carry(row) for name, row in rows.items()}
    return rows


def edit(graph: og.Graph, rng: random.Random, shape: Shape, rows: Rows, branch: str) -> Rows:
    """Some rows put and some removed, on the branch and in the model."""
    removed = rng.sample(sorted(rows), rng.randint(0, min(2, len(rows))))
    chosen = rng.sample([each for each in "abcdefg" if each not in removed], rng.randint(1, 3))
    puts = {name: shape.row(rng, name) for name in chosen}
    graph.load({shape.name: list(puts.values())}, mode="merge", branch=branch)
    if removed:
        told = " ".join(f'delete {shape.name} where k = "{name}"' for name in removed)
        graph.mutate(f"query q() {{ {told} }}", branch=branch)
    return {**{name: row for name, row in rows.items() if name not in removed}, **puts}


def stored(graph: og.Graph, shape: Shape, branch: str) -> Rows:
    entry = graph.snapshot(branch=branch)[f"node:{shape.name}"]
    table = graph._manifest.stores.tables.open(entry.pin).read()
    assert table.num_rows == entry.row_count
    return {row.pop("id"): row for row in table.to_pylist()}


def check(folder: Path, seed: int) -> None:
    rng = random.Random(seed)
    shapes = [Shape()]
    for number in range(rng.randint(1, 4)):
        shapes.append(shapes[-1].next(rng, number))
    graph = og.init(folder / "g", schema=shapes[0].schema)
    base = {name: shapes[0].row(rng, name) for name in "abcde"}
    graph.load({"Thing": list(base.values())})
    commit, now, behind = graph.commits()[0].id, base, base
    stood_by = rng.random() < 0.5
    if stood_by:
        graph.branches.create("past")
        behind = edit(graph, rng, shapes[0], base, "past")
    for shape in shapes[1:]:
        graph.apply_schema(shape.schema)
        now = carried(now, [shape])
        if rng.random() < 0.5:
            now = edit(graph, rng, shape, now, "main")
    last = shapes[-1]
    if not stood_by:
        graph.branches.create("past", from_=commit)
    graph.branches.create("side")
    began = carried(base, shapes[1:])
    past = carried(edit(graph, rng, shapes[0], behind, "past"), shapes[1:])
    ahead = rng.choice(["main", "side"])
    now = edit(graph, rng, last, now, ahead)
    if rng.random() < 0.3:
        # What happened between two changes of schema cannot be told any more.
        graph.cleanup(keep=1, grace=dt.timedelta(0))
    source, target = rng.choice([("past", ahead), (ahead, "past")])
    ours, theirs = (now, past) if source == "past" else (past, now)
    resolve: Any = rng.choice([None, "ours", "theirs"])
    expected, told = merge_rows(began, ours, theirs, set(), resolve)
    if told:
        with pytest.raises(MergeConflicts) as refusal:
            graph.merge(source, into=target, resolve=resolve)
        assert {(each.kind, each.row_id) for each in refusal.value.conflicts} == told
        expected, _ = merge_rows(began, ours, theirs, set(), "theirs")
        resolve = "theirs"
    graph.merge(source, into=target, resolve=resolve)
    assert stored(graph, last, target) == expected
    assert graph.snapshot(branch=target).schema == graph.snapshot(branch=ahead).schema
    graph.merge(target, into=source)
    assert stored(graph, last, source) == expected


@pytest.mark.parametrize("seed", range(6))
def test_a_few_merges_across_random_changes_of_schema(tmp_path: Path, seed: int) -> None:
    check(tmp_path, seed)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("first", range(100, 200, 20))
def test_many_merges_across_random_changes_of_schema(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 20):
        (tmp_path / str(seed)).mkdir()
        check(tmp_path / str(seed), seed)
