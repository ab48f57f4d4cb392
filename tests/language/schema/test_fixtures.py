"""Every rule of the language, once kept and once broken, as text files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from language.schema.ir_reader import catalog_from_ir
from language.schema.outline import outline
from omnigraph.catalog.canonical import compact
from omnigraph.errors import SchemaError
from omnigraph.language.schema.compile import compile_schema
from omnigraph.language.schema.findings import CODES
from omnigraph.language.schema.printer import print_schema
from omnigraph.language.stored.ir import catalog_to_ir
from omnigraph.language.stored.ir_shape import ir_from_json

FIXTURES = Path(__file__).parent / "fixtures"
ACCEPTED = sorted((FIXTURES / "accepted").glob("*.pg"))
REFUSED = sorted((FIXTURES / "refused").glob("*.pg"))


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="surrogatepass")


def expected_refusals(text: str) -> list[tuple[str, str]]:
    found = re.findall(r'^// refuses: (S\d+) (".*")$', text, re.MULTILINE)
    return [(code, json.loads(underlined)) for code, underlined in found]


@pytest.mark.parametrize("path", ACCEPTED, ids=lambda path: path.stem)
def test_an_accepted_text_means_what_it_says(path: Path) -> None:
    text = text_of(path)
    seen = outline(compile_schema(text, path.name))
    for expected in re.findall(r"^// sees: (.*)$", text, re.MULTILINE):
        assert expected in seen


@pytest.mark.parametrize("path", ACCEPTED, ids=lambda path: path.stem)
def test_an_accepted_text_survives_printing_and_storing(path: Path) -> None:
    catalog = compile_schema(text_of(path), path.name)
    assert compile_schema(print_schema(catalog)) == catalog
    assert catalog_from_ir(ir_from_json(compact(catalog_to_ir(catalog)))) == catalog


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.stem)
def test_a_refused_text_is_refused_for_its_reason_at_its_place(path: Path) -> None:
    text = text_of(path)
    with pytest.raises(SchemaError) as caught:
        compile_schema(text, path.name)
    found = [(each.code, text[each.start : each.end]) for each in caught.value.diagnostics]
    assert sorted(found) == sorted(expected_refusals(text))
    for each in caught.value.diagnostics:
        line = text.split("\n")[each.line - 1]
        assert line[each.column - 1 :].startswith(text[each.start : each.end].split("\n")[0])
        assert str(each).startswith(f"{path.name}:{each.line}:{each.column}: error[{each.code}]: ")


def test_every_rule_has_both_fixtures() -> None:
    assert {path.stem for path in ACCEPTED} == {path.stem for path in REFUSED}


def test_every_code_is_shown_by_a_fixture_and_every_fixture_uses_known_codes() -> None:
    shown = {code for path in REFUSED for code, _ in expected_refusals(text_of(path))}
    assert shown == set(CODES)
