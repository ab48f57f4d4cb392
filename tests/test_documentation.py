"""The examples of the pages work as a reader sees them: Python runs, schemas compile, queries parse, links resolve.

The blocks of a page are executed in order, in one directory: `python` blocks as one program; `pg` blocks are compiled;
`gq` blocks are parsed; `file NAME` blocks are written first; `sh` blocks run after the Python. Nothing is hidden from
the reader: pages have no comments. (`console` blocks are run by tests/cli/test_guide.py.)
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph.language.gq.syntax.parse import parse_queries
from omnigraph.language.schema.compile import compile_schema
from omnigraph.world import REAL

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(
    r"^```(?P<kind>[a-z]+)(?: (?P<name>\S+))?\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_KINDS = {"console", "file", "gq", "json", "pg", "python", "sh", "sql", "text", "yaml"}


def _blocks(page: Path) -> list[re.Match[str]]:
    return list(_BLOCK.finditer(page.read_text("utf-8")))


def _python(page: Path) -> str:
    return "\n".join(each["text"] for each in _blocks(page) if each["kind"] == "python")


def _needs_spark(page: Path) -> bool:
    return "spark" in _python(page).lower()


WITH_PYTHON = [
    pytest.param(page, id=page.name, marks=[pytest.mark.spark, pytest.mark.slow] if _needs_spark(page) else [])
    for page in PAGES
    if _python(page)
]


@pytest.mark.parametrize("page", WITH_PYTHON)
def test_the_python_of_a_page_runs_as_it_is_written(page: Path, tmp_path: Path) -> None:
    for block in _blocks(page):
        if block["kind"] == "file":
            (tmp_path / block["name"]).write_text(block["text"], "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", _python(page)], cwd=tmp_path, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    commands = "".join(each["text"] for each in _blocks(page) if each["kind"] == "sh")
    path = f"{Path(sys.executable).parent}{os.pathsep}{REAL.environ['PATH']}"
    environ = {**REAL.environ, "PATH": path, "OMNIGRAPH_EMBEDDINGS_MOCK": "1"}
    shell = subprocess.run(
        ["sh", "-euc", commands], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=240
    )
    assert shell.returncode == 0, shell.stderr
    if page.name == "README.md":
        assert "│ Grace  │" in done.stdout
        assert done.stdout.splitlines()[-2:] == ["merged", "[{'people': 3}]"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_schemas_compile_and_queries_parse(page: Path) -> None:
    for block in _blocks(page):
        if block["kind"] == "pg":
            compile_schema(block["text"])
        elif block["kind"] == "gq":
            assert parse_queries(block["text"]).queries


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_has_a_kind_that_is_tested(page: Path) -> None:
    assert {each["kind"] for each in _blocks(page)} <= _KINDS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_nothing_that_runs_is_hidden_from_the_reader(page: Path) -> None:
    assert "<!--" not in page.read_text("utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_pages_name_are_there(page: Path) -> None:
    for named in re.findall(r"`((?:src|tests|benchmarks|docs|examples)/[\w./-]+\.(?:py|md|txt))`", page.read_text()):
        assert (ROOT / named).exists(), f"{page.name} names {named}"


def test_the_reference_says_what_the_docstrings_say() -> None:
    done = subprocess.run([sys.executable, ROOT / "docs" / "api.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_reference_has_every_class_that_its_methods_return() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    returned = {name for line in re.findall(r"\) -> ([^\n`]+)\n", page) for name in re.findall(r"\b[A-Z]\w+", line)}
    described = set(re.findall(r"^#+ `(?:[\w.]*\.)?(\w+)`", page, re.MULTILINE))
    others = {
        "Any",
        "None",
        "Iterator",
        "Path",
        "DataFrame",
        "SparkSession",
        "Table",
        "RecordBatch",
        "RecordBatchReader",
        "Entity",
        "Json",
    }
    assert returned - described <= others
