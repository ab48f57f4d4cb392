"""The Social and Search graphs that most tests here ask questions of."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest

from query.graphs import make_graph

if TYPE_CHECKING:
    from pathlib import Path

    from query.graphs import Graph

SOCIAL = """
node Person { name: String @key
  age: I32? }
node Company { name: String @key }
edge Knows: Person -> Person { since: Date? }
edge WorksAt: Person -> Company
"""

SEARCH = """
node Doc { slug: String @key
  title: String @index
  body: String @index
  embedding: Vector(4) @index }
"""


def person(name: str, age: int | None) -> dict[str, object]:
    return {"name": name, "age": age}


def edge(src: str, dst: str, **properties: object) -> dict[str, object]:
    return {"src": src, "dst": dst, **properties}


PEOPLE = [person("Alice", 30), person("Bob", 25), person("Charlie", 35), person("Diana", 28)]


@pytest.fixture
def social(tmp_path: Path) -> Graph:
    return make_graph(
        tmp_path,
        SOCIAL,
        {
            "Person": PEOPLE,
            "Company": [{"name": "Acme"}, {"name": "Globex"}],
            "Knows": [
                edge("Alice", "Bob", since=dt.date(2020, 1, 1)),
                edge("Alice", "Charlie"),
                edge("Bob", "Diana", since=dt.date(2021, 6, 1)),
            ],
            "WorksAt": [edge("Alice", "Acme"), edge("Bob", "Globex")],
        },
    )


def doc(slug: str, title: str, body: str, embedding: list[float]) -> dict[str, object]:
    return {"slug": slug, "title": title, "body": body, "embedding": embedding}


DOCS = [
    doc(
        "ml-intro", "Introduction to Machine Learning", "Machine learning finds patterns in data.", [0.1, 0.2, 0.3, 0.4]
    ),
    doc(
        "dl-basics",
        "Deep Learning Basics",
        "Deep learning uses neural networks with many layers to model complex data.",
        [0.5, 0.6, 0.7, 0.8],
    ),
    doc("nlp-guide", "Natural Language Processing", "Processing human language with models.", [0.2, 0.3, 0.4, 0.5]),
    doc("cv-overview", "Computer Vision Overview", "Vision models see images.", [0.8, 0.7, 0.6, 0.5]),
    doc(
        "rl-intro",
        "Reinforcement Learning",
        "Learning by reward: agents keep learning from trial and error.",
        [0.3, 0.4, 0.5, 0.6],
    ),
]


@pytest.fixture
def search(tmp_path: Path) -> Graph:
    return make_graph(tmp_path, SEARCH, {"Doc": DOCS})
