"""The manifest of a table, as bytes: it remembers the greatest fragment number, also of fragments that are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
from lance import LanceDataset, LanceOperation
from lance.debug import format_manifest

from conformance.tables import keyed, write
from omnigraph.storage.lance.metadata import greatest_fragment
from omnigraph.storage.tables.table import Table

if TYPE_CHECKING:
    from pathlib import Path


def greatest(dataset: LanceDataset) -> int:
    table = Table(dataset, path="t", branch=None)
    return max([greatest_fragment(dataset), *table.fragment_ids()], default=0)


def test_the_greatest_number_is_remembered_when_its_fragment_is_gone(tmp_path: Path) -> None:
    dataset = write(tmp_path / "t", keyed([0]))
    for number in range(1, 4):
        dataset = lance.write_dataset(keyed([number]), dataset, mode="append")
    assert greatest(dataset) == 3
    dataset.delete("true")
    assert [each.fragment_id for each in dataset.get_fragments()] == []
    assert greatest(dataset) == 3
    dataset = lance.write_dataset(keyed([9]), dataset, mode="append")
    assert [each.fragment_id for each in dataset.get_fragments()] == [4]
    assert greatest(dataset) == 4


def test_it_is_the_number_that_lance_prints_of_it(tmp_path: Path) -> None:
    """Numbers of more than seven bits stand in more than one byte."""
    dataset = lance.write_dataset(keyed(list(range(140))), tmp_path / "t", max_rows_per_file=1)
    assert greatest(dataset) == 139
    assert "max_fragment_id:Some(139,)" in "".join(format_manifest(dataset).split())


def test_a_table_that_never_had_a_fragment_has_none(tmp_path: Path) -> None:
    schema = keyed([0]).schema
    dataset = LanceDataset.commit(str(tmp_path / "t"), LanceOperation.Overwrite(schema, []), read_version=0)
    assert greatest(dataset) == 0
