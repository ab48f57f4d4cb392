"""`s3+ddb://`: Lance keeps the order of commits in DynamoDB, control objects stay in the plain bucket."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

from omnigraph.storage.lance.errors import Trouble, classify
from omnigraph.storage.objects.location import Location, parse_location
from omnigraph.storage.objects.store import open_control_store
from omnigraph.storage.tables.probe import probe_store, require_safe
from omnigraph.world import REAL
from servers.moto_aws import MotoAws

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = pa.table({"id": ["a"]})

APPEND = """
import sys, lance, pyarrow as pa
from omnigraph.storage.lance.errors import Trouble, classify
from omnigraph.storage.objects.location import parse_location
from omnigraph.world import REAL
location = parse_location(sys.argv[1], REAL)
for number in range(int(sys.argv[2])):
    lance.write_dataset(
        pa.table({"id": [f"{sys.argv[3]}-{number}"]}),
        location.child("nodes/0a"),
        mode="append",
        storage_options=location.storage_options,
    )
"""


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MotoAws]:
    with MotoAws(tmp_path_factory.mktemp("moto")) as server:
        yield server


@pytest.fixture
def uri(aws: MotoAws, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
    for name, value in aws.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3+ddb://{aws.bucket}/{request.node.name}?ddbTableName={aws.table}"


def create(location: Location) -> lance.LanceDataset:
    return lance.write_dataset(ROWS, location.child("nodes/0a"), storage_options=location.storage_options)


@pytest.mark.s3
def test_the_commits_of_a_table_are_recorded_in_dynamodb(uri: str, aws: MotoAws) -> None:
    location = parse_location(uri, REAL)
    create(location)
    lance.write_dataset(ROWS, location.child("nodes/0a"), mode="append", storage_options=location.storage_options)
    assert lance.dataset(location.child("nodes/0a"), storage_options=location.storage_options).count_rows() == 2
    base = location.object_path("nodes/0a")
    assert sorted(int(row["version"]["N"]) for row in aws.rows() if row["base_uri"]["S"] == base) == [1, 2]


@pytest.mark.s3
def test_appends_of_several_processes_are_all_kept(uri: str) -> None:
    location = parse_location(uri, REAL)
    create(location)
    writers = [subprocess.Popen([sys.executable, "-c", APPEND, uri, "4", str(writer)]) for writer in range(3)]
    assert [each.wait(100) for each in writers] == [0, 0, 0]
    table = lance.dataset(location.child("nodes/0a"), storage_options=location.storage_options)
    expected = {"a", *(f"{writer}-{number}" for writer in range(3) for number in range(4))}
    assert sorted(table.to_table()["id"].to_pylist()) == sorted(expected)
    assert table.version == 13


@pytest.mark.s3
def test_of_two_simultaneous_commits_on_one_version_one_is_refused(uri: str) -> None:
    location = parse_location(uri, REAL)
    table = create(location)
    start = threading.Barrier(2)

    def commits(fragments: list[lance.FragmentMetadata]) -> bool:
        change = lance.LanceOperation.Overwrite(table.schema, fragments)
        start.wait()
        try:
            lance.LanceDataset.commit(
                location.child("nodes/0a"),
                change,
                read_version=1,
                storage_options=location.storage_options,
                max_retries=0,
            )
        except OSError as error:
            return classify(error) not in {Trouble.RETRYABLE, Trouble.CONTENTION}
        return True

    with ThreadPoolExecutor(2) as pool:
        won = list(pool.map(commits, [lance.fragment.write_fragments(ROWS, table) for _ in range(2)]))
    assert sorted(won) == [False, True]


@pytest.mark.s3
def test_control_objects_are_plain_objects_of_the_bucket(uri: str, aws: MotoAws) -> None:
    location = parse_location(uri, REAL)
    open_control_store(location, REAL).create("__init_claim.json", b"{}")
    plain = parse_location(f"s3://{location.bucket}/{location.root}", REAL)
    assert open_control_store(plain, REAL).list_names() == ["__init_claim.json"]
    assert not [row for row in aws.rows() if row["base_uri"]["S"].startswith(location.root)]


@pytest.mark.s3
def test_the_probe_passes_and_leaves_nothing_in_the_bucket_or_the_table(uri: str, aws: MotoAws) -> None:
    location = parse_location(uri, REAL)
    require_safe(probe_store(location, REAL))
    assert open_control_store(location, REAL).list_names() == []
    assert not [row for row in aws.rows() if row["base_uri"]["S"].startswith(location.root)]
