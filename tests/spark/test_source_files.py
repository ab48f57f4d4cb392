from __future__ import annotations

from typing import TYPE_CHECKING

import obstore
import pytest

from omnigraph.errors import InvalidInput, ObjectNotFound, StoreError
from omnigraph.load.files import InputFile, list_files, read_range, resolved_options
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.objects.remote import open_remote_objects
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NAMES = ("a.jsonl", "b.jsonl", "sub/c.jsonl", "sub/deep/d.jsonl", "sub/e.csv", "_SUCCESS", ".hidden", "sub/_t/f.jsonl")


@pytest.fixture
def folder(graph_uri: str) -> str:
    """A directory, or a prefix in a bucket, with small files whose content is their name."""
    location = parse_location(graph_uri, REAL)
    if location.is_local:
        from pathlib import Path

        for name in NAMES:
            file = Path(location.uri, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(name)
        return location.uri
    objects = open_remote_objects(location, REAL)
    for name in NAMES:
        obstore.put(objects.store, name, name.encode())
    return location.uri


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("", ["a.jsonl", "b.jsonl", "sub/c.jsonl", "sub/deep/d.jsonl", "sub/e.csv"]),
        ("/", ["a.jsonl", "b.jsonl", "sub/c.jsonl", "sub/deep/d.jsonl", "sub/e.csv"]),
        ("/a.jsonl", ["a.jsonl"]),
        ("/*.jsonl", ["a.jsonl", "b.jsonl"]),
        ("/[!b].jsonl", ["a.jsonl"]),
        ("/?.jsonl", ["a.jsonl", "b.jsonl"]),
        ("/**/*.jsonl", ["a.jsonl", "b.jsonl", "sub/c.jsonl", "sub/deep/d.jsonl"]),
        ("/sub/*.csv", ["sub/e.csv"]),
        ("/sub/dee*", ["sub/deep/d.jsonl"]),
    ],
)
def test_a_directory_a_file_and_a_pattern_name_files(folder: str, source: str, expected: Sequence[str]) -> None:
    found = list_files(folder + source, world=REAL)
    assert [each.where for each in found] == [f"{folder}/{name}" for name in expected]
    assert [each.size for each in found] == [len(name) for name in expected]


def test_several_sources_give_each_file_once(folder: str) -> None:
    found = list_files([f"{folder}/a.jsonl", f"{folder}/*.jsonl"], world=REAL)
    assert [each.where for each in found] == [f"{folder}/a.jsonl", f"{folder}/b.jsonl"]


def test_a_source_without_files_is_an_error(folder: str) -> None:
    for source in ("/none.jsonl", "/*.parquet", "/sub/deep/deeper"):
        with pytest.raises(InvalidInput, match="there is no file at"):
            list_files(folder + source, world=REAL)


def test_a_range_of_a_file_is_read(folder: str) -> None:
    (file,) = list_files(f"{folder}/sub/c.jsonl", world=REAL)
    options = resolved_options([file], world=REAL)
    assert read_range(file, 4, 7, options) == b"c.j"
    assert read_range(file, 4, 4, options) == b""


def test_a_file_that_became_shorter_or_vanished_is_an_error(folder: str) -> None:
    (file,) = list_files(f"{folder}/a.jsonl", world=REAL)
    longer, gone = InputFile(file.where, 100), InputFile(f"{folder}/gone.jsonl", 100)
    options = resolved_options([file], world=REAL)
    with pytest.raises((InvalidInput, StoreError), match=r"shorter|cannot be read"):
        read_range(longer, 5, 100, options)
    with pytest.raises((ObjectNotFound, StoreError), match=r"gone\.jsonl"):
        read_range(gone, 0, 100, options)


def test_a_scheme_nobody_knows_is_refused() -> None:
    with pytest.raises(InvalidInput, match="s3://"):
        list_files("hdfs://name/path", world=REAL)


def test_the_names_that_hadoop_has_for_s3_are_understood(folder: str) -> None:
    if not folder.startswith("s3://"):
        pytest.skip("only for buckets")
    found = list_files(folder.replace("s3://", "s3a://") + "/a.jsonl", world=REAL)
    assert [each.where for each in found] == [f"{folder}/a.jsonl"]


def test_a_relative_path_and_a_file_url_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x y.csv").write_text("1")
    monkeypatch.chdir(tmp_path)
    expected = [InputFile(str(tmp_path / "x y.csv"), 1)]
    assert list_files("x y.csv", world=REAL) == expected
    assert list_files("*.csv", world=REAL) == expected
    assert list_files(f"file://{tmp_path}/x y.csv", world=REAL) == expected
