"""Vectors from texts where people meet them: in loads, in queries, over Arrow batches, and offline."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.embeddings import Embeddings, Mock
from omnigraph.embeddings.embedder import EmbeddingStep
from omnigraph.embeddings.providers import mock_vector
from omnigraph.errors import EmbeddingFailed, InvalidInput, ValueViolation
from omnigraph.language.schema.compile import compile_schema

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "node Doc { slug: String @key  text: String?  v: Vector(4) @embed(text) }"
NEAREST = 'query q() { match { $d: Doc } return { $d.slug } order { nearest($d.v, "second text") } limit 1 }'
RECORDS = [
    {"type": "Doc", "data": {"slug": "a", "text": "first text"}},
    {"type": "Doc", "data": {"slug": "b", "text": "second text"}},
    {"type": "Doc", "data": {"slug": "c", "text": "x", "v": [1.0, 0.0, 0.0, 0.0]}},
]


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    graph.embeddings = Embeddings(Mock())
    return graph


def vectors(graph: og.Graph) -> dict[str, list[float]]:
    found = graph.query("query q() { match { $d: Doc } return { $d.slug, $d.v } }").to_pylist()
    return {each["d.slug"]: each["d.v"] for each in found}


def test_a_load_makes_the_vectors_that_are_missing(graph: og.Graph) -> None:
    graph.load(RECORDS, embed=True)
    found = vectors(graph)
    np.testing.assert_allclose(found["b"], mock_vector("second text", 4), rtol=1e-6)
    assert found["c"] == [1.0, 0.0, 0.0, 0.0]


def test_without_being_asked_a_load_makes_none(graph: og.Graph) -> None:
    with pytest.raises(ValueViolation, match="v has no value"):
        graph.load(RECORDS)
    with pytest.raises(ValueViolation, match="'d'"):
        graph.load([{"type": "Doc", "data": {"slug": "d"}}], embed=True)


def test_a_text_is_found_by_its_vector(graph: og.Graph) -> None:
    graph.load(RECORDS, embed=True)
    assert graph.query(NEAREST).to_pylist() == [{"d.slug": "b"}]
    with_vector = NEAREST.replace('"second text"', str(mock_vector("second text", 4)))
    assert graph.query(with_vector).to_pylist() == [{"d.slug": "b"}]


def test_the_environment_is_asked_when_the_graph_has_no_provider(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph.load(RECORDS, embed=True)
    graph.embeddings = None
    for name in ("OPENROUTER_API_KEY", "OPENAI_API_KEY", "OMNIGRAPH_EMBED_PROVIDER"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(EmbeddingFailed, match="OPENROUTER_API_KEY or OPENAI_API_KEY is required"):
        graph.query(NEAREST)
    monkeypatch.setenv("OMNIGRAPH_EMBEDDINGS_MOCK", "true")
    assert graph.query(NEAREST).to_pylist() == [{"d.slug": "b"}]


def test_vectors_of_another_model_are_refused(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema=SCHEMA.replace("@embed(text)", '@embed(text, model="m-1")'))
    graph.embeddings = Embeddings(Mock())
    with pytest.raises(InvalidInput, match=r"'m-1'.*'mock'"):
        graph.load(RECORDS, embed=True)
    graph.embeddings = Embeddings(Mock("m-1"))
    graph.load(RECORDS, embed=True)
    graph.embeddings = Embeddings(Mock("m-2"))
    with pytest.raises(InvalidInput, match=r"'m-1'.*'m-2'"):
        graph.query(NEAREST)


def test_the_step_for_batches_can_be_sent_to_another_process() -> None:
    node = compile_schema(SCHEMA).nodes["Doc"]
    step: Any = pickle.loads(pickle.dumps(EmbeddingStep(node, Embeddings(Mock()))))
    kind = pa.list_(pa.field("item", pa.float32()), 4)
    rows = pa.table(
        {"slug": ["a", "b", "c"], "text": ["one", None, ""], "v": pa.array([None, [1, 0, 0, 0], None], kind)}
    )
    [done] = step(iter(rows.to_batches()))
    found = done.column("v").to_pylist()
    np.testing.assert_allclose(found[0], mock_vector("one", 4), rtol=1e-6)
    assert found[1:] == [[1, 0, 0, 0], None]
    assert replace(step) == step


# -- offline -----------------------------------------------------------------------------------------------------------

SPEC = {"dimension": 4, "types": {"Doc": {"target": "v", "fields": ["title", "text"]}}}


@pytest.fixture
def embed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    from typer.testing import CliRunner

    from omnigraph.cli.main import app

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "mock")
    (tmp_path / "spec.json").write_text(json.dumps(SPEC))
    lines = [
        {"type": "Doc", "data": {"slug": "a", "title": "T", "text": "x"}},
        {"type": "Doc", "data": {"slug": "b", "text": "y", "v": [9, 9, 9, 9]}},
        {"type": "Doc", "data": {"slug": "c", "v": []}},
        {"type": "City", "data": {"name": "Rome"}},
        {"edge": "Links", "from": "a", "to": "b"},
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))

    def run(*words: str) -> tuple[int, Any, list[Any]]:
        files = ("--input", "in.jsonl", "--output", "out.jsonl", "--spec", "spec.json")
        ran = CliRunner().invoke(app, ["embed", *(() if "--seed" in words else files), *words, "--json"])
        told = json.loads(ran.stdout) if ran.exit_code == 0 else ran.stderr
        out = tmp_path / ("build/seed.embedded.jsonl" if "--seed" in words else "out.jsonl")
        return ran.exit_code, told, [json.loads(each) for each in out.read_text().splitlines()] if out.exists() else []

    return run


def test_offline_missing_vectors_are_made_and_other_lines_stay(embed: Any) -> None:
    code, told, lines = embed()
    assert code == 0
    assert told == {
        "input": "in.jsonl", "output": "out.jsonl", "records": 5, "selected_records": 3, "embedded_records": 1,
        "cleaned_records": 0, "mode": "fill_missing", "dimension": 4, "model": "mock",
    }  # fmt: skip
    np.testing.assert_allclose(lines[0]["data"]["v"], mock_vector("T\nx", 4), rtol=1e-6)
    assert lines[1]["data"]["v"] == [9, 9, 9, 9]
    assert lines[3:] == [{"type": "City", "data": {"name": "Rome"}}, {"edge": "Links", "from": "a", "to": "b"}]


@pytest.mark.parametrize(
    ("words", "mode", "selected", "embedded", "cleaned"),
    [
        (["--reembed-all"], "reembed_all", 3, 2, 0),
        (["--select", "Doc:slug=b"], "reembed_selected", 1, 1, 0),
        (["--type", "City"], "reembed_selected", 0, 0, 0),
        (["--clean"], "clean", 3, 0, 2),
        (["--clean", "--select", "slug=b"], "clean", 1, 0, 1),
    ],
)
def test_offline_modes(embed: Any, words: list[str], mode: str, selected: int, embedded: int, cleaned: int) -> None:
    _, told, lines = embed(*words)
    assert told["mode"] == mode
    assert [told[f"{each}_records"] for each in ("selected", "embedded", "cleaned")] == [selected, embedded, cleaned]
    assert len(lines) == 5


def test_offline_with_a_manifest(embed: Any, tmp_path: Path) -> None:
    (tmp_path / "seed.yaml").write_text(f"sources: {{raw_seed: in.jsonl}}\nembeddings: {json.dumps(SPEC)}\n")
    code, told, lines = embed("--seed", "seed.yaml")
    assert (code, told["embedded_records"], len(lines)) == (0, 1, 5)


@pytest.mark.parametrize(
    ("words", "code"), [(["--clean", "--reembed-all"], 2), (["--select", "slug"], 2), (["--seed", "missing.yaml"], 1)]
)
def test_offline_mistakes_are_told_and_write_nothing(embed: Any, words: list[str], code: int) -> None:
    done, _, lines = embed(*words)
    assert (done, lines) == (code, [])


def test_offline_a_failure_keeps_the_output_that_was_there(embed: Any, tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").write_text('{"kept": 1}\n')
    (tmp_path / "in.jsonl").write_text("not json\n")
    code, told, lines = embed()
    assert code == 1
    assert "record 1 is not JSON" in told
    assert lines == [{"kept": 1}]
    assert sorted(each.name for each in tmp_path.glob("out*")) == ["out.jsonl"]
