"""The parse tables that are kept beside the grammars are theirs, and a parser from them reads the same."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest

from omnigraph.language.core.parse_tables import decoded, encoded
from omnigraph.language.gq.syntax.parse import grammar_file as queries
from omnigraph.language.schema.parse import grammar_file as schemas

if TYPE_CHECKING:
    from omnigraph.language.core.parse_tables import Grammar

BOTH = [pytest.param(queries(), id="queries"), pytest.param(schemas(), id="schemas")]
TEXTS = {
    "omnigraph.language.gq.syntax": (
        "query q($n: I64?) { match { $p: Person { age: $n } $p knows $f } return { $f.name } }"
    ),
    "omnigraph.language.schema": "node Person { name: String @key\n face: Vector(3)? }\nedge Knows: Person -> Person",
}


@pytest.mark.parametrize("grammar", BOTH)
def test_the_kept_tables_are_of_this_grammar(grammar: Grammar) -> None:
    kept = json.loads(files(grammar.package).joinpath("grammar.json").read_text())
    assert kept["digest"] == grammar.digest(grammar.source()), "run `python tools/build_tables.py`"


@pytest.mark.parametrize("grammar", BOTH)
def test_a_parser_from_tables_reads_what_one_from_the_grammar_reads(grammar: Grammar) -> None:
    made, loaded = grammar.made(grammar.source()), grammar.parser()
    start = {"start": "schema"} if "start" in grammar.options else {}
    text = TEXTS[grammar.package]
    assert loaded.parse(text, **start) == made.parse(text, **start)
    assert len(loaded.rules) == len(made.rules)


@pytest.mark.parametrize("grammar", BOTH)
def test_tables_of_another_grammar_are_not_used(grammar: Grammar, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []
    kind = type(grammar)
    monkeypatch.setattr(kind, "digest", lambda _self, _source: "another")
    monkeypatch.setattr(kind, "made", lambda _self, source: used.append(source))
    grammar.parser()
    assert used == [grammar.source()]


def test_keys_that_are_no_texts_survive() -> None:
    data = {"a": {1: (2, "x"), -3: {"b": [None, True]}}, "c": {}}
    assert decoded(json.dumps(encoded(data))) == {"a": {1: [2, "x"], -3: {"b": [None, True]}}, "c": {}}
