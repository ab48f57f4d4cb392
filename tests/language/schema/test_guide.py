"""The user guide is true: its examples compile, and it knows every code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from omnigraph.language.evolution import LINTS
from omnigraph.language.evolution.steps import StepKind
from omnigraph.language.schema.compile import compile_schema
from omnigraph.language.schema.findings import CODES

GUIDE = (Path(__file__).parents[3] / "docs" / "schema.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```pg\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_every_example_compiles(example: str) -> None:
    assert compile_schema(example).table_keys()


def test_the_codes_of_texts_are_those_of_the_language() -> None:
    assert dict(re.findall(r"^\| (S\d+) \| (.*) \|$", GUIDE, re.MULTILINE)) == CODES


def test_the_codes_of_changes_are_those_of_the_planner() -> None:
    listed = dict(re.findall(r"^\| (OG-\S+) \| (\w+) \|", GUIDE, re.MULTILINE))
    assert listed == {lint.code: "refused" if lint.way_out else lint.tier for lint in LINTS.values()}


def test_every_kind_of_step_is_explained() -> None:
    assert all(f"`{kind}`" in GUIDE for kind in StepKind.__args__)  # type: ignore[attr-defined]
