"""The base that both sides of a merge start from: Alice, Bob, Carol and Dan; Bob knows Carol."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import omnigraph as og
from mutation.conftest import Social

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = """
node Person { name: String @key  age: I32?  city: String?  email: String? @unique }
edge Knows: Person -> Person { since: Date? }
"""
BASE = """
insert Person { name: "Alice", age: 30 } insert Person { name: "Bob", age: 25 }
insert Person { name: "Carol", age: 40 } insert Person { name: "Dan", age: 50 }
insert Knows { from: "Bob", to: "Carol" }
"""


@pytest.fixture
def forked(tmp_path: Path) -> Social:
    """A graph with the base on main, and a branch `feature` of it."""
    social = Social(og.init(tmp_path / "graph", schema=SCHEMA))
    social.do(BASE)
    social.graph.branches.create("feature")
    return social
