"""Every fixture becomes exactly what its expected file says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from language.query.showing import FIXTURES, show_file, world

if TYPE_CHECKING:
    from pathlib import Path

_TREES = sorted(FIXTURES.rglob("*.gq"))
_ACCEPTED = ("spec_reads", "extended_reads", "contextual_words", "mutations")


@pytest.fixture(scope="module")
def catalog():
    return world()


@pytest.mark.parametrize("fixture", _TREES, ids=[each.stem for each in _TREES])
def test_a_fixture_is_read_and_checked_as_expected(fixture: Path, catalog) -> None:
    assert show_file(fixture, catalog) == fixture.with_suffix(".expected").read_text()


@pytest.mark.parametrize("name", _ACCEPTED)
def test_the_accepted_fixtures_hold_no_refusal(name: str) -> None:
    assert "refused" not in (FIXTURES / f"{name}.expected").read_text()


@pytest.mark.parametrize("name", ["refused_reads", "refused_mutations"])
def test_the_refused_fixtures_hold_nothing_else_and_are_named_by_their_code(name: str) -> None:
    blocks = (FIXTURES / f"{name}.expected").read_text().split("\n\n")
    for block in blocks:
        title, _, findings = block.strip().partition("\n")
        assert title.startswith("refused ")
        if code := re.match(r"refused ([td]\d+)", title):
            assert f"error[{code[1].upper()}]" in findings, title


def test_every_code_of_the_language_is_refused_somewhere() -> None:
    text = "".join((FIXTURES / f"{name}.expected").read_text() for name in ("refused_reads", "refused_mutations"))
    assert set(re.findall(r"error\[([TD]\d+)\]", text)) == {*(f"T{number}" for number in range(26)), "D2"}
