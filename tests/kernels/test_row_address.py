"""Row addresses are packed and unpacked in one place, and agree with Lance's own."""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.kernels.row_address import (
    CREATED_AT,
    ROW_ADDRESS,
    ROW_ID,
    ROW_NUMBER,
    SYSTEM_COLUMNS,
    UPDATED_AT,
    address,
    addresses,
    by_fragment,
    fragment_of,
    fragments_of,
    offset_of,
    staged_order,
    staged_row,
)
from omnigraph.storage.filters.model import equal
from omnigraph.storage.tables.staging import commit_staged, stage_append, stage_delete
from source import modules
from storage.every_type import made, open_store, small

if TYPE_CHECKING:
    from pathlib import Path

HALVES = st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))


@given(HALVES)
def test_an_address_is_taken_apart_into_what_it_was_made_of(halves: tuple[int, int]) -> None:
    one = address(*halves)
    assert (fragment_of(one), offset_of(one)) == halves
    assert one == int(np.uint64(halves[0]) << np.uint64(32) | np.uint64(halves[1]))
    assert staged_row(staged_order(*halves)) == halves


@given(st.lists(HALVES, unique=True))
def test_arrays_agree_with_single_addresses(halves: list[tuple[int, int]]) -> None:
    many = np.array([address(*each) for each in halves], np.uint64)
    assert (fragment_of(many).dtype, offset_of(many).dtype) == (np.uint64, np.uint64)
    assert list(zip(fragment_of(many).tolist(), offset_of(many).tolist(), strict=True)) == halves
    assert fragments_of(many) == sorted({fragment for fragment, _ in halves})


@given(st.lists(HALVES, unique=True))
def test_rows_by_fragment_are_all_rows_in_order(halves: list[tuple[int, int]]) -> None:
    grouped = by_fragment(np.array([address(*each) for each in halves], np.uint64))
    assert all(offsets.dtype == np.uint32 for _, offsets in grouped)
    assert [(fragment, each) for fragment, offsets in grouped for each in offsets.tolist()] == sorted(halves)
    assert [fragment for fragment, _ in grouped] == sorted({fragment for fragment, _ in halves})


@given(
    st.integers(0, 2**32 - 1), st.lists(st.integers(0, 2**32 - 1)), st.sampled_from([np.uint32, np.uint64, np.int64])
)
def test_addresses_of_one_fragment(fragment: int, offsets: list[int], kind: type[np.generic]) -> None:
    found = addresses(fragment, np.array(offsets, kind))
    assert found.dtype == np.uint64
    assert found.tolist() == [address(fragment, each) for each in offsets]


def test_the_addresses_of_lance_are_such(tmp_path: Path) -> None:
    table = made(open_store(str(tmp_path)), small("a", "b", "c"))
    table = commit_staged(stage_append(table, small("d", "e"))).table
    staged = stage_delete(table, equal("id", "b"))
    assert staged is not None
    rows = commit_staged(staged).table.read([ROW_ADDRESS]).column(ROW_ADDRESS).to_numpy()
    assert rows.tolist() == [address(0, 0), address(0, 2), address(1, 0), address(1, 1)]


def test_every_system_column_is_one_of_lances(tmp_path: Path) -> None:
    table = made(open_store(str(tmp_path)), small("a"))
    assert table.read(sorted(SYSTEM_COLUMNS)).to_pylist() == [
        {ROW_ADDRESS: 0, ROW_ID: 0, ROW_NUMBER: 0, CREATED_AT: 1, UPDATED_AT: 1}
    ]


@pytest.mark.parametrize("name", sorted(SYSTEM_COLUMNS))
def test_the_name_of_a_system_column_is_written_once(name: str) -> None:
    written = [file for file, tree in modules().items() for each in ast.walk(tree) if _is(each, name)]
    assert written == ["kernels/row_address.py"]


def _is(node: ast.AST, text: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == text


def test_the_module_loads_no_numpy() -> None:
    ask = "import sys, omnigraph.kernels.row_address; print('numpy' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, timeout=60, check=True)
    assert told.stdout.strip() == "False"
