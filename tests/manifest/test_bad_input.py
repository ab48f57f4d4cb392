"""What cannot be opened: each refusal has a type of its own, names the place, says what to do, and writes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

from manifest import works
from manifest.graphs import create, dataset_of, publish_next, reopen, tree
from omnigraph.errors import (
    CorruptStamp,
    FormatTooNew,
    FormatTooOld,
    IncompleteGraph,
    InvalidBranchName,
    InvalidUri,
    ManifestCorrupt,
    NotAGraph,
    StorePermissionDenied,
    StoreUnavailable,
)
from omnigraph.manifest.layout import FORMAT_VERSION_KEY, INIT_LEASE

if TYPE_CHECKING:
    from pathlib import Path

    from manifest.hands import Hands
    from omnigraph.manifest.graph_manifest import GraphManifest

both_modes = pytest.mark.parametrize("read_only", [False, True], ids=["read-write", "read-only"])


def restamp(graph: GraphManifest, value: str, branch: str = "main") -> None:
    dataset_of(graph, branch).update_schema_metadata({FORMAT_VERSION_KEY: value})


@both_modes
@pytest.mark.parametrize("content", [None, "empty", "other files", "a file", "a __manifest folder"])
def test_a_place_without_a_graph_is_named(tmp_path: Path, content: str | None, *, read_only: bool) -> None:
    place = tmp_path / "place"
    if content == "a file":
        place.write_text("not a directory")
    elif content is not None:
        (place / "__manifest").mkdir(parents=True)
        if content != "empty":
            (place / "__manifest" / "readme.txt").write_text("mine")
    before = tree(tmp_path)
    with pytest.raises(NotAGraph, match="make one with init") as caught:
        reopen(str(place), read_only=read_only)
    assert caught.value.uri == str(place)
    assert tree(tmp_path) == before


@both_modes
def test_another_programs_table_called_manifest_is_not_a_graph(tmp_path: Path, *, read_only: bool) -> None:
    lance.write_dataset(pa.table({"object": [1]}), str(tmp_path / "__manifest"))
    before = tree(tmp_path)
    with pytest.raises(NotAGraph, match="another program"):
        reopen(str(tmp_path), read_only=read_only)
    assert tree(tmp_path) == before


@both_modes
@pytest.mark.parametrize("left", [[INIT_LEASE], ["_schema.pg"], ["_schema.pg", "_schema.ir.json"]])
def test_a_half_made_graph_is_told_from_none_and_from_a_whole_one(
    tmp_path: Path, left: list[str], *, read_only: bool
) -> None:
    for name in left:
        (tmp_path / name).write_text("x")
    before = tree(tmp_path)
    with pytest.raises(IncompleteGraph, match="init again") as caught:
        reopen(str(tmp_path), read_only=read_only)
    assert left[0] in str(caught.value)
    assert tree(tmp_path) == before


@both_modes
@pytest.mark.parametrize("stamp", ["5", "6", "99"])
def test_a_newer_format_is_refused_on_main(tmp_path: Path, stamp: str, *, read_only: bool) -> None:
    restamp(create(str(tmp_path / "g")), stamp)
    before = tree(tmp_path)
    with pytest.raises(FormatTooNew, match="Upgrade omnigraph first") as caught:
        reopen(str(tmp_path / "g"), read_only=read_only)
    assert (caught.value.stamp, caught.value.supported) == (int(stamp), 4)
    assert tree(tmp_path) == before


@both_modes
@pytest.mark.parametrize("stamp", ["5", "99"])
def test_a_newer_format_is_refused_on_a_branch_alone(tmp_path: Path, stamp: str, *, read_only: bool) -> None:
    made = create(str(tmp_path / "g"))
    made.create_branch("b")
    restamp(made, stamp, "b")
    before = tree(tmp_path)
    graph = reopen(str(tmp_path / "g"), read_only=read_only)
    assert graph.snapshot().tables
    for attempt in (graph.snapshot, graph.lineage):
        with pytest.raises(FormatTooNew, match="Upgrade omnigraph first"):
            attempt("b")
    if not read_only:
        with pytest.raises(FormatTooNew):
            publish_next(graph, branch="b")
    assert tree(tmp_path) == before


def test_a_format_that_becomes_newer_under_a_warm_handle_stops_its_writes(tmp_path: Path) -> None:
    made = create(str(tmp_path / "g"))
    warm = reopen(str(tmp_path / "g"))
    restamp(made, "5")
    before = tree(tmp_path)
    with pytest.raises(FormatTooNew):
        publish_next(warm)
    assert tree(tmp_path) == before


@both_modes
@pytest.mark.parametrize("stamp", ["four", "", "-1", "4.0", "４", " 4"])
def test_a_stamp_that_is_no_number_is_shown(tmp_path: Path, stamp: str, *, read_only: bool) -> None:
    restamp(create(str(tmp_path / "g")), stamp)
    before = tree(tmp_path)
    with pytest.raises(CorruptStamp, match="restore it from a copy") as caught:
        reopen(str(tmp_path / "g"), read_only=read_only)
    assert caught.value.value == stamp
    assert tree(tmp_path) == before


@both_modes
def test_a_stamp_below_the_floor_is_too_old(tmp_path: Path, *, read_only: bool) -> None:
    restamp(create(str(tmp_path / "g")), "0")
    with pytest.raises(FormatTooOld, match="older release"):
        reopen(str(tmp_path / "g"), read_only=read_only)


@both_modes
def test_newer_columns_without_a_stamp_are_a_torn_graph_and_not_v1(tmp_path: Path, *, read_only: bool) -> None:
    graph = create(str(tmp_path / "g"))
    dataset_of(graph).update_schema_metadata({FORMAT_VERSION_KEY: None})
    dataset_of(graph).add_columns({"stable_table_id": "cast(1 as bigint unsigned)"})
    before = tree(tmp_path)
    with pytest.raises(ManifestCorrupt, match="torn"):
        reopen(str(tmp_path / "g"), read_only=read_only)
    assert tree(tmp_path) == before


@both_modes
@pytest.mark.parametrize("damage", ["truncated", "emptied", "overwritten"])
def test_a_manifest_version_that_cannot_be_read_is_damage_and_not_absence(
    tmp_path: Path, damage: str, *, read_only: bool
) -> None:
    create(str(tmp_path / "g"))
    newest = min((tmp_path / "g" / "__manifest" / "_versions").glob("*.manifest"))
    whole = newest.read_bytes()
    newest.write_bytes({"truncated": whole[: len(whole) // 2], "emptied": b"", "overwritten": b"x" * 64}[damage])
    before = tree(tmp_path)
    with pytest.raises(ManifestCorrupt, match="Restore it"):
        reopen(str(tmp_path / "g"), read_only=read_only)
    with pytest.raises(ManifestCorrupt):
        create(str(tmp_path / "g"))
    assert tree(tmp_path) == before


def test_a_lost_file_of_the_manifest_is_damage_too(tmp_path: Path) -> None:
    create(str(tmp_path / "g"))
    next((tmp_path / "g" / "__manifest" / "data").iterdir()).unlink()
    with pytest.raises(ManifestCorrupt, match="Restore it"):
        reopen(str(tmp_path / "g"))


@both_modes
def test_files_that_may_not_be_read_are_forbidden_and_not_absent(
    tmp_path: Path, hands: Hands, *, read_only: bool
) -> None:
    create(str(tmp_path / "g"))
    (tmp_path / "g").chmod(0o700)
    outcome = hands.run(_open_as_nobody(read_only=read_only), str(tmp_path / "g"))
    assert isinstance(outcome.error, StorePermissionDenied), outcome


def test_init_where_nobody_may_write_says_so(tmp_path: Path, hands: Hands) -> None:
    outcome = hands.run(works.init_as_nobody, str(tmp_path / "g"))
    assert isinstance(outcome.error, StorePermissionDenied), outcome
    assert tree(tmp_path) == {}


def _open_as_nobody(*, read_only: bool) -> object:
    return works.open_read_only_as_nobody if read_only else works.open_as_nobody


@pytest.mark.s3
@both_modes
def test_a_bucket_that_is_not_there_is_unavailable(s3_uri: str, *, read_only: bool) -> None:
    with pytest.raises(StoreUnavailable, match="bucket"):
        reopen("s3://no-such-bucket/graph.omni", read_only=read_only)


@pytest.mark.s3
def test_wrong_credentials_are_refused_and_not_shown(s3_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-wrong-secret")
    with pytest.raises(StorePermissionDenied, match="credentials") as caught:
        reopen(s3_uri)
    assert "a-wrong-secret" not in str(caught.value)


def test_a_server_that_does_not_answer_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(StoreUnavailable, match="endpoint"):
        reopen("s3://lake/graph.omni")


def test_the_address_of_a_server_is_no_place_for_a_graph() -> None:
    with pytest.raises(InvalidUri, match="server"):
        reopen("https://example.com/graph.omni")


BAD_NAMES = [
    *("", " ", " b", "b ", "main", "__schema_apply_lock__", "/b", "b/", "a//b", "..", "a/..", "a..b", ".", "a/./b"),
    *("a\\b", "a b", "a.lock", "a.lock/b", "ä", "a:b", "a%2Fb", "a#1", "a?b", "a\nb", "a\0b", "x" * 201),
]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_no_branch_can_have_is_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    graph = create(str(tmp_path / "g"))
    before = tree(tmp_path)
    with pytest.raises(InvalidBranchName) as caught:
        graph.create_branch(name)
    assert caught.value.name == name
    assert tree(tmp_path) == before
