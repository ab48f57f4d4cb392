"""A small social graph to mutate, and short ways to ask what is in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import omnigraph as og

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = """
node Person {
    name: String @key
    age: I32?
    score: F64?
    joined: DateTime?
    born: Date?
    tags: [String]?
    mood: enum(happy, sad)?
    email: String? @unique
    @range(age, 0..150)
    @check(name, "^[A-Za-z0-9 '._-]+$")
}
node Note { text: String  stars: U64?  vector: Vector(2)? }
edge Knows: Person -> Person { since: Date?  weight: F64? }
edge Owns: Person -> Note @card(0..2)
edge Likes: Person -> Person { why: String?  @key(src, dst) }
"""


@dataclass(frozen=True)
class Social:
    """An open graph with a few words to read it by."""

    graph: og.Graph

    def do(self, body: str, branch: str = "main", **params: Any) -> og.Mutated:
        declared = ", ".join(f"${name}: {_type(value)}" for name, value in params.items())
        return self.graph.mutate(f"query q({declared}) {{ {body} }}", params, branch=branch)

    def rows(self, table_key: str, branch: str = "main") -> dict[str, dict[str, Any]]:
        """The rows of a type by id; moments as milliseconds."""
        entry = self.graph.snapshot(branch=branch)[table_key]
        table = self.graph._manifest.stores.tables.open(entry.pin).read()
        for at, field in enumerate(table.schema):
            if pa.types.is_date64(field.type):
                table = table.set_column(at, field.name, table.column(at).cast(pa.int64()))
        return {row["id"]: row for row in table.to_pylist()}

    def people(self, branch: str = "main") -> dict[str, dict[str, Any]]:
        return self.rows("node:Person", branch)

    def ends(self, table_key: str, branch: str = "main") -> list[tuple[str, str]]:
        return sorted((row["src"], row["dst"]) for row in self.rows(table_key, branch).values())


def _type(value: object) -> str:
    match value:
        case bool():
            return "Bool"
        case int():
            return "I64"
        case float():
            return "F64"
        case list():
            return "[String]"
        case None:
            return "String?"
        case _:
            return "String"


@pytest.fixture
def social(tmp_path: Path) -> Social:
    return Social(og.init(tmp_path / "graph", schema=SCHEMA))
