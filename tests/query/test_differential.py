"""Generated graphs and queries: every answer equals the oracle's, in both traversal modes, with and without indexes."""

from __future__ import annotations

from collections import Counter
from random import Random  # noqa: TID251 - seeded, so that a failure can be repeated
from typing import TYPE_CHECKING, Any

import pytest

from omnigraph.errors import QueryError
from omnigraph.language.ir.params import bind_params
from query.generated import SCHEMA, Writer, graph
from query.graphs import NOW, Graph, make_graph
from query.oracle import Oracle, shown

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.language.ir.query import CheckedQuery

PARAMS: dict[str, Any] = {"n": 20, "t": "a", "l": ["a", "c"], "k": 2}
QUERIES_PER_GRAPH = 12


def written(made: Graph, random: Random) -> tuple[str, CheckedQuery]:
    """A query that passes the checks; the generator also writes some that do not."""
    for _ in range(200):
        text = Writer(random).query()
        try:
            return text, made.checked(text)
        except QueryError:
            continue
    raise AssertionError("the generator writes nothing that passes")


def expected(oracle: Oracle, checked: CheckedQuery) -> tuple[list[Any], bool]:
    """The rows, and whether their order matters."""
    kinds = [each.type for each in checked.columns]
    ordered = bool(checked.order) or checked.aggregated or checked.distinct
    plain = checked.aggregated or checked.distinct
    rows = oracle.answer(checked) if plain else oracle.ordered_rows(checked)
    return [tuple(shown(v, k) for v, k in zip(row, kinds, strict=True)) for row in rows], ordered


def differences(seed: int, folder: Path) -> list[str]:
    random = Random(seed)
    records = graph(random)
    made = make_graph(folder, SCHEMA, records)
    if seed % 3 == 0:
        made = made.indexed()
    found = []
    for _ in range(QUERIES_PER_GRAPH):
        text, checked = written(made, random)
        given = {**PARAMS, "t": random.choice(["a", "b", None]), "n": random.choice([20, None])}
        wanted, ordered = expected(Oracle(made.catalog, records, bind_params(checked, given), NOW), checked)
        for mode in ("csr", "indexed", "auto"):
            result = made.query(text, given, traversal=mode, batch_rows=random.choice([2, 1_000_000]))
            kinds = [each.type for each in checked.columns]
            rows = [tuple(shown(v, k) for v, k in zip(r.values(), kinds, strict=True)) for r in result.to_pylist()]
            same = rows == wanted if ordered else Counter(rows) == Counter(wanted)
            if not same:
                found.append(f"seed {seed}, {mode}, {given}:\n{text}\n  got    {rows}\n  wanted {wanted}")
    return found


@pytest.mark.parametrize("seed", range(12))
def test_generated_queries_mean_what_the_oracle_says(seed: int, tmp_path: Path) -> None:
    assert differences(seed, tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1_000, 1_300))
def test_many_generated_queries_mean_what_the_oracle_says(seed: int, tmp_path: Path) -> None:
    assert differences(seed, tmp_path) == []
