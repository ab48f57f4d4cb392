"""Where the files of a table are is known in one place, and Lance puts them there."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.storage.filters.model import equal
from omnigraph.storage.lance.paths import (
    branch_reference_file,
    detached_version_file,
    is_content,
    is_detached,
    table_dir,
    version_file,
    version_of,
    version_read_by,
)
from omnigraph.storage.tables.immediate import create_branch, preview
from omnigraph.storage.tables.staging import commit_staged, stage_append, stage_delete
from source import modules
from storage.every_type import PATH, made, open_store, small

if TYPE_CHECKING:
    from pathlib import Path

BRANCHES = st.one_of(st.none(), st.sampled_from(["dev", "team/x"]))


@given(st.integers(1, 2**64 - 2), BRANCHES)
def test_a_version_file_tells_its_version(version: int, branch: str | None) -> None:
    file = version_file("nodes/a", branch, version)
    assert version_of(file) == version
    assert not is_detached(file)
    detached = detached_version_file("nodes/a", branch, version)
    assert (version_of(detached), is_detached(detached)) == (None, True)


def test_the_older_naming_scheme_has_the_version_itself() -> None:
    assert [version_of(f"nodes/a/_versions/{each}") for each in ("7.manifest", "7.txt", "latest.json")] == [
        7,
        None,
        None,
    ]


def test_lance_puts_the_files_there(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    table = made(store, small("a", "b"))
    staged = stage_delete(table, equal("id", "a"))
    assert staged is not None
    commit_staged(staged)
    create_branch(store.open_newest(PATH), "team/x")
    forked = store.open_newest(PATH, "team/x")
    commit_staged(stage_append(forked, small("c")))
    detached = preview(stage_append(table, small("d")))
    for branch, version in ((None, 1), (None, 2), ("team/x", 3)):
        assert (tmp_path / version_file(PATH, branch, version)).is_file()
    assert (tmp_path / detached_version_file(PATH, None, detached.version)).is_file()
    assert (tmp_path / branch_reference_file(PATH, "team/x")).is_file()
    main = tmp_path / table_dir(PATH, None)
    files = [each.relative_to(main).as_posix() for each in main.rglob("*") if each.is_file()]
    own = [each for each in files if not each.startswith("tree/")]
    assert sum(map(is_content, own)) == 3, "two data files and a deletion file"
    assert {version_read_by(each) for each in own if each.endswith(".txn")} >= {1}


SCATTERED = re.compile(r"(^|/)(tree|_versions|_refs|_deletions|_transactions)(/|$)|^data/|/data/")


@pytest.mark.parametrize("text", ["/tree/", "x/_versions", "data/", "_refs/branches/"])
def test_the_rule_sees_a_part_of_a_path(text: str) -> None:
    assert SCATTERED.search(text)


def test_no_other_module_spells_a_part_of_a_path() -> None:
    strays = [
        f"{file}:{node.lineno} {node.value!r}"
        for file, tree in modules().items()
        if file != "storage/lance/paths.py"
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value
        if SCATTERED.search(node.value) and " " not in node.value
    ]
    assert strays == []
