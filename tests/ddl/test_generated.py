"""Random chains of schema changes over random rows: every row is what a model on dictionaries says, then and before."""

from __future__ import annotations

import random  # noqa: TID251
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

import omnigraph as og

if TYPE_CHECKING:
    from pathlib import Path

VALUES: dict[str, list[Any]] = {
    "String": ["", "a", "é", "long " * 9],
    "I32": [-(2**31), 0, 7],
    "I64": [2**40, -1],
    "U32": [0, 2**32 - 1],
    "U64": [2**50],
    "F32": [0.5, -2.25],
    "F64": [0.1, 1e300],
    "Bool": [True, False],
    "[I32]": [[], [1, 2]],
    "Vector(2)": [[0.5, 1.0]],
}
DEFAULTS = {"String": '"d"', "I32": "3", "F64": "2.5", "Bool": "true"}
DEFAULT_VALUES = {"String": "d", "I32": 3, "F64": 2.5, "Bool": True}
WIDER = {"I32": "I64", "U32": "U64", "F32": "F64", "[I32]": "[I64]"}
VALUES["[I64]"] = [[2**40]]


@dataclass
class Column:
    kind: str
    nullable: bool = True
    default: bool = False
    renamed_from: str | None = None

    def text(self, name: str) -> str:
        words = [f"{name}: {self.kind}{'?' if self.nullable else ''}"]
        words += [f"@default({DEFAULTS[self.kind]})"] if self.default else []
        words += [f'@rename_from("{self.renamed_from}")'] if self.renamed_from else []
        return " ".join(words)


@dataclass
class Type:
    columns: dict[str, Column] = field(default_factory=dict)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    renamed_from: str | None = None


class Model:
    """The graph as dictionaries, and the changes that can be made to it."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.types: dict[str, Type] = {}
        self._names = 0
        for _ in range(2):
            self.add_type()
        for each in self.types.values():
            for _ in range(3):
                self.add_column(each)

    def schema(self) -> str:
        blocks = []
        for name, each in self.types.items():
            hint = f'@rename_from("{each.renamed_from}") ' if each.renamed_from else ""
            columns = "  ".join(column.text(held) for held, column in each.columns.items())
            blocks.append(f"node {name} {hint}{{ k: String @key  {columns} }}")
        return "\n".join(blocks)

    def step(self) -> None:
        """One to four changes at once, each thing changed at most once."""
        for each in self.types.values():
            each.renamed_from = None
            for column in each.columns.values():
                column.renamed_from = None
        for _ in range(self.rng.randint(1, 4)):
            self.rng.choice([self.add_type, self.drop_type, self.rename_type, *[self.change_columns] * 5])()

    def add_type(self) -> None:
        self.types[self._name("T")] = Type()

    def drop_type(self) -> None:
        if len(self.types) > 1:
            del self.types[self.rng.choice(sorted(self.types))]

    def rename_type(self) -> None:
        name = self.rng.choice(sorted(self.types))
        if self.types[name].renamed_from is None and self.types[name].rows:
            held = self.types.pop(name)
            held.renamed_from = name
            self.types[self._name("T")] = held

    def change_columns(self) -> None:
        held = self.types[self.rng.choice(sorted(self.types))]
        change = self.rng.choice([self.add_column, self.drop_column, self.rename_column, self.widen, self.relax])
        change(held)

    def add_column(self, held: Type) -> None:
        kind = self.rng.choice(sorted(VALUES))
        default = kind in DEFAULTS and self.rng.random() < 0.5
        column = Column(kind, nullable=not default or self.rng.random() < 0.5, default=default)
        name = self._name("p")
        held.columns[name] = column
        for row in held.rows.values():
            row[name] = DEFAULT_VALUES[kind] if default else None

    def drop_column(self, held: Type) -> None:
        for name in self._some(held):
            del held.columns[name]
            for row in held.rows.values():
                del row[name]

    def rename_column(self, held: Type) -> None:
        for old in self._some(held):
            if held.columns[old].renamed_from is None and all(old in row for row in held.rows.values()) and held.rows:
                new = self._name("p")
                held.columns[new] = held.columns.pop(old)
                held.columns[new].renamed_from = old
                for row in held.rows.values():
                    row[new] = row.pop(old)

    def widen(self, held: Type) -> None:
        for name in self._some(held):
            column = held.columns[name]
            if column.kind in WIDER and not column.default:
                column.kind = WIDER[column.kind]

    def relax(self, held: Type) -> None:
        for name in self._some(held):
            held.columns[name].nullable = True

    def fill(self) -> list[dict[str, Any]]:
        """New rows of every type, as records to load."""
        records = []
        for name, held in self.types.items():
            for _ in range(self.rng.randint(1, 3)):
                row = {each: self._value(column) for each, column in held.columns.items()}
                key = self._name("k")
                held.rows[key] = row
                records.append({"type": name, "data": {"k": key, **row}})
        return records

    def _value(self, column: Column) -> Any:
        return None if column.nullable and self.rng.random() < 0.3 else self.rng.choice(VALUES[column.kind])

    def _some(self, held: Type) -> list[str]:
        return [self.rng.choice(sorted(held.columns))] if held.columns else []

    def _name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"


def read(graph: og.Graph, types: dict[str, Type], **where: Any) -> dict[str, dict[str, dict[str, Any]]]:
    found = {}
    for name, held in types.items():
        told = ", ".join(f"$x.{each}" for each in ["k", *held.columns])
        rows = graph.query(f"query q() {{ match {{ $x: {name} }} return {{ {told} }} }}", **where).to_pylist()
        found[name] = {row.pop("x.k"): {key.removeprefix("x."): value for key, value in row.items()} for row in rows}
    return found


def expected(types: dict[str, Type]) -> dict[str, dict[str, dict[str, Any]]]:
    return {name: held.rows for name, held in types.items()}


def changed(place: Path, seed: int, steps: int) -> None:
    """A chain of changes with rows in between; afterwards every state of it is read again."""
    model = Model(random.Random(seed))
    graph = og.init(place, schema=model.schema())
    states = []
    for _ in range(steps):
        graph.load(model.fill())
        states.append((graph.commits()[0].id, deepcopy(model.types)))
        model.step()
        done = graph.apply_schema(model.schema())
        assert read(graph, model.types) == expected(model.types), model.schema()
        if done.commit is not None:
            states.append((done.commit.id, deepcopy(model.types)))
    later = og.open(place, read_only=True)
    for commit, types in states:
        assert read(later, types, at=commit) == expected(types)


@pytest.mark.parametrize("seed", range(3))
def test_rows_follow_a_chain_of_changes(tmp_path: Path, seed: int) -> None:
    changed(tmp_path / "g", seed, 3)


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("seed", range(100, 160))
def test_rows_follow_many_chains_of_changes(tmp_path: Path, seed: int) -> None:
    changed(tmp_path / "g", seed, 6)
