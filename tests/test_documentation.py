"""The examples of the pages work as a reader sees them: Python runs, schemas compile, queries parse, links resolve.

The blocks of a page are executed in order, in one directory: `python` blocks as one program; `pg` blocks are compiled;
`gq` blocks are parsed; `file NAME` blocks are written first; `sh` blocks run after the Python; on a page with Python a
`text` block is a part of what it prints. The blocks above the first one that needs Spark always run; the whole page
runs in the slow tier. Nothing is hidden from the reader: pages have no comments. (`console` blocks are run by
tests/cli/test_guide.py.)
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from omnigraph.language.gq.syntax.parse import parse_queries
from omnigraph.language.schema.compile import compile_schema
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(
    r"^```(?P<kind>[a-z]+)(?: (?P<name>\S+))?\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_KINDS = {"console", "file", "gq", "json", "pg", "python", "sh", "sql", "text", "yaml"}


def _blocks(page: Path) -> list[re.Match[str]]:
    return list(_BLOCK.finditer(page.read_text("utf-8")))


def _needs_spark(block: re.Match[str]) -> bool:
    return block["kind"] in {"python", "sh"} and "spark" in block["text"].lower()


def _before_spark(page: Path) -> list[re.Match[str]]:
    """The blocks of a page above the first one that needs Spark; the blocks below may use what that one made."""
    return list(takewhile(lambda block: not _needs_spark(block), _blocks(page)))


def _text(blocks: list[re.Match[str]], kind: str) -> str:
    return "\n".join(each["text"] for each in blocks if each["kind"] == kind)


WITHOUT_SPARK = [page for page in PAGES if _text(_before_spark(page), "python")]
WITH_SPARK = [page for page in PAGES if any(map(_needs_spark, _blocks(page)))]


@pytest.mark.parametrize("page", WITHOUT_SPARK, ids=lambda page: page.name)
def test_the_python_of_a_page_runs_as_it_is_written(page: Path, tmp_path: Path) -> None:
    printed = _run(page, _before_spark(page), tmp_path)
    if page.name == "README.md":
        assert "│ Grace  │" in printed
        assert printed.splitlines()[-2:] == ["merged", "[{'people': 3}]"]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_SPARK, ids=lambda page: page.name)
def test_the_whole_page_runs_with_spark(page: Path, tmp_path: Path) -> None:
    _run(page, _blocks(page), tmp_path)


def _run(page: Path, blocks: list[re.Match[str]], place: Path) -> str:
    """What the Python of these blocks prints; it contains the `text` blocks of the page in their order."""
    for block in _blocks(page):
        if block["kind"] == "file":
            (place / block["name"]).write_text(block["text"], "utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{REAL.environ['PATH']}"
    environ = {**REAL.environ, "PATH": path, "OMNIGRAPH_EMBEDDINGS_MOCK": "1"}
    printed = _completed([sys.executable, "-c", _text(blocks, "python")], REAL.environ, place)
    _completed(["sh", "-euc", _text(blocks, "sh")], environ, place)
    position = 0
    for block in blocks:
        if block["kind"] == "text":
            found = printed.find(block["text"], position)
            assert found >= 0, f"{page.name} shows what is not printed:\n{block['text']}\n{printed}"
            position = found + len(block["text"])
    return printed


def _completed(command: list[str], environ: Mapping[str, str], place: Path) -> str:
    done = subprocess.run(command, cwd=place, env=dict(environ), capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout


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
