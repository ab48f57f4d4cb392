"""Where a graph lives: what a URI means to Lance and to the control store, and which settings both are given."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

from omnigraph.errors import InvalidUri
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.objects.store import open_control_store
from omnigraph.world import REAL, World

if TYPE_CHECKING:
    from servers.seaweed import Seaweed

NOWHERE = World(environ={})
ROWS = pa.table({"id": ["a"]})


def in_environment(**variables: str) -> World:
    return World(environ=variables)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("/data/g", "/data/g"),
        ("/data/g/", "/data/g"),
        ("/data//x/../g/.", "/data/g"),
        ("file:///data/g/", "/data/g"),
        ("file://localhost/data/g", "/data/g"),
        ("file:///data/my%20graph", "/data/my graph"),
        (Path("/data/g"), "/data/g"),
        ("/data/100%20", "/data/100%20"),
    ],
)
def test_a_local_location_is_an_absolute_path(given: str | Path, expected: str) -> None:
    location = parse_location(given, NOWHERE)
    assert (location.uri, location.is_local, location.storage_options) == (expected, True, None)
    assert location.child("nodes/0a") == f"{expected}/nodes/0a"
    assert location.object_path("nodes/0a") == f"{expected[1:]}/nodes/0a"


def test_a_relative_path_is_made_absolute_without_following_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.chdir(tmp_path)
    assert parse_location("link/g", NOWHERE).uri == str(tmp_path / "link" / "g")


def test_a_leading_tilde_is_the_home_directory() -> None:
    assert parse_location("~/g", in_environment(HOME="/home/ada")).uri == "/home/ada/g"
    assert parse_location("/data/~/g", in_environment(HOME="/home/ada")).uri == "/data/~/g"


@pytest.mark.parametrize("scheme", ["s3", "gs", "az"])
def test_a_location_in_a_bucket_is_a_prefix(scheme: str) -> None:
    location = parse_location(f"{scheme}://bucket/team/g.omni/", NOWHERE)
    assert (location.uri, location.bucket, location.root) == (f"{scheme}://bucket/team/g.omni", "bucket", "team/g.omni")
    assert location.child("nodes/0a") == f"{scheme}://bucket/team/g.omni/nodes/0a"
    assert location.object_path("nodes/0a") == "team/g.omni/nodes/0a"
    assert not location.is_local


def test_a_whole_bucket_can_be_a_location() -> None:
    location = parse_location("s3://bucket/", NOWHERE)
    assert location.uri == "s3://bucket"
    assert location.child("nodes/0a") == "s3://bucket/nodes/0a"
    assert location.object_path("nodes/0a") == "nodes/0a"


def test_the_table_of_an_external_manifest_store_stays_at_the_end_of_the_uri() -> None:
    location = parse_location("s3+ddb://bucket/g/?ddbTableName=commits", NOWHERE)
    assert location.uri == "s3+ddb://bucket/g?ddbTableName=commits"
    assert location.child("nodes/0a") == "s3+ddb://bucket/g/nodes/0a?ddbTableName=commits"
    assert location.object_path("nodes/0a") == "g/nodes/0a"


@pytest.mark.parametrize("uri", ["http://127.0.0.1:8080", "https://graphs.example.com/social"])
def test_the_address_of_a_server_is_refused_with_advice(uri: str) -> None:
    with pytest.raises(InvalidUri, match=r"address of a server.*s3://bucket/prefix") as raised:
        parse_location(uri, NOWHERE)
    assert raised.value.uri == uri


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("", "empty"),
        ("/", "root of the file system"),
        ("file://elsewhere/g", "on this machine"),
        ("file:///g#1", "%23"),
        ("/data/a\nb", "control characters"),
        ("ftp://host/g", "s3://"),
        ("s3:///g", "bucket is missing"),
        ("s3://bucket/a//b", "empty part"),
        ("s3://bucket/../b", "dot part"),
        ("s3://bucket/a%20b", "%"),
        ("s3://bucket/a#1", "#"),
        ("s3://bucket/g?x=1", "query"),
        ("s3://bucket:9000/g", "ports"),
        ("s3+ddb://bucket/g", "ddbTableName"),
        ("s3+ddb://bucket/g?table=x", "ddbTableName"),
    ],
)
def test_a_location_that_cannot_hold_a_graph_is_refused_with_the_reason(uri: str, reason: str) -> None:
    with pytest.raises(InvalidUri) as raised:
        parse_location(uri, NOWHERE)
    assert reason in raised.value.message


@pytest.mark.parametrize(
    "uri", ["http://ada:hunter2@host/g", "s3://ada:hunter2@bucket/g", "https://host/g?sig=hunter2"]
)
def test_credentials_in_a_refused_uri_are_not_repeated(uri: str) -> None:
    with pytest.raises(InvalidUri) as raised:
        parse_location(uri, NOWHERE)
    assert "hunter2" not in str(raised.value) + repr(raised.value) + raised.value.uri


def test_the_settings_come_from_the_environment() -> None:
    world = in_environment(
        AWS_REGION="eu-north-1",
        AWS_DEFAULT_REGION="us-west-2",
        AWS_ACCESS_KEY_ID="id",
        AWS_SECRET_ACCESS_KEY="hunter2",
        AWS_SESSION_TOKEN="token",
        AWS_ENDPOINT_URL="http://general:1",
        AWS_ENDPOINT_URL_S3="http://special:2",
        AWS_ALLOW_HTTP="1",
        AWS_S3_FORCE_PATH_STYLE="true",
    )
    assert parse_location("s3://bucket/g", world).storage_options == {
        "aws_region": "eu-north-1",
        "aws_access_key_id": "id",
        "aws_secret_access_key": "hunter2",
        "aws_session_token": "token",
        "aws_endpoint": "http://special:2",
        "aws_endpoint_url_s3": "http://special:2",
        "allow_http": "true",
        "aws_virtual_hosted_style_request": "false",
    }


def test_without_settings_lance_is_told_nothing_and_looks_for_credentials_itself() -> None:
    assert parse_location("s3://bucket/g", NOWHERE).storage_options == {}


def test_what_is_passed_in_wins_over_the_environment_in_any_spelling() -> None:
    world = in_environment(AWS_REGION="eu-north-1", AWS_ENDPOINT_URL_S3="https://there")
    options = parse_location("s3://b/g", world, {"region": "us-west-2", "endpoint_url": "https://here"}).storage_options
    assert options == {
        "aws_region": "us-west-2",
        "aws_endpoint": "https://here",
        "aws_endpoint_url_s3": "https://here",
    }


def test_dynamodb_is_reached_at_its_own_endpoint_or_at_that_of_all_services() -> None:
    uri, general = "s3+ddb://b/g?ddbTableName=t", "https://everything"
    found = parse_location(uri, in_environment(AWS_ENDPOINT_URL=general)).storage_options
    assert found is not None
    assert found["dynamodb_endpoint"] == general
    own = in_environment(AWS_ENDPOINT_URL=general, AWS_ENDPOINT_URL_DYNAMODB="https://dynamo")
    assert (parse_location(uri, own).storage_options or {})["dynamodb_endpoint"] == "https://dynamo"
    assert "dynamodb_endpoint" not in (parse_location("s3://b/g", own).storage_options or {})


def test_without_path_style_requests_go_to_the_host_of_the_bucket() -> None:
    world = in_environment(AWS_S3_FORCE_PATH_STYLE="false", AWS_ENDPOINT_URL="https://store.example.com")
    options = parse_location("s3://bucket/g", world).storage_options
    assert options is not None
    assert options["aws_virtual_hosted_style_request"] == "true"
    assert options["aws_endpoint"] == "https://bucket.store.example.com"


def test_plain_http_needs_a_word_of_permission() -> None:
    with pytest.raises(InvalidUri, match="AWS_ALLOW_HTTP=true"):
        parse_location("s3://bucket/g", in_environment(AWS_ENDPOINT_URL="http://host:1"))


def test_an_endpoint_that_is_no_url_is_named_as_the_trouble() -> None:
    with pytest.raises(InvalidUri, match="AWS_ENDPOINT_URL"):
        parse_location("s3://bucket/g", in_environment(AWS_ENDPOINT_URL="host:9000"))


def test_google_and_azure_settings_come_from_their_own_variables() -> None:
    google = parse_location("gs://b/g", in_environment(GOOGLE_SERVICE_ACCOUNT_PATH="/key.json", AWS_REGION="x"))
    assert google.storage_options == {"google_service_account_path": "/key.json"}
    azure = parse_location(
        "az://c/g", in_environment(AZURE_STORAGE_ACCOUNT_NAME="acc", AZURE_STORAGE_ACCOUNT_KEY="aGk=")
    )
    assert azure.storage_options == {"azure_storage_account_name": "acc", "azure_storage_account_key": "aGk="}


def test_a_location_never_prints_its_credentials() -> None:
    world = in_environment(AWS_ACCESS_KEY_ID="id", AWS_SECRET_ACCESS_KEY="hunter2", AWS_SESSION_TOKEN="hunter2")
    location = parse_location("s3://b/g", world)
    shown = [repr(location), str(location), repr(location.storage_options), str(location.storage_options)]
    assert "hunter2" not in "".join([*shown, repr(open_control_store(location, world))])
    assert "aws_secret_access_key" in repr(location.storage_options)


def test_a_location_travels_to_another_process_with_its_settings() -> None:
    location = parse_location("s3://b/g", in_environment(AWS_SECRET_ACCESS_KEY="hunter2"))
    arrived = pickle.loads(pickle.dumps(location))
    assert arrived == location
    assert arrived.storage_options == {"aws_secret_access_key": "hunter2"}


def test_a_location_can_be_a_key_of_a_dictionary() -> None:
    world = in_environment(AWS_REGION="eu-north-1")
    assert {parse_location("s3://b/g", world): 1}[parse_location("s3://b/g/", world)] == 1


def test_lance_writes_where_the_control_store_looks(graph_uri: str) -> None:
    location = parse_location(graph_uri, REAL)
    lance.write_dataset(ROWS, location.child("nodes/0a"), storage_options=location.storage_options)
    assert open_control_store(location, REAL).exists("nodes/0a/_versions")


@pytest.mark.parametrize("name", ["a b", "p%20q", "h#1", "ü", "c:d", "[x]*", "a+b&c=d"])
def test_lance_and_the_control_store_agree_on_directories_with_odd_names(tmp_path: Path, name: str) -> None:
    location = parse_location(tmp_path / name, REAL)
    lance.write_dataset(ROWS, location.child("t"))
    assert open_control_store(location, REAL).exists("t/_versions")
    assert os.listdir(tmp_path) == [name]  # noqa: PTH208


@pytest.mark.s3
@pytest.mark.parametrize("name", ["a b", "ü", "c:d", "[x]*", "a+b&c=d", "x@y"])
def test_lance_and_the_control_store_agree_on_prefixes_with_odd_names(s3_uri: str, name: str) -> None:
    location = parse_location(f"{s3_uri}/{name}", REAL)
    lance.write_dataset(ROWS, location.child("t"), storage_options=location.storage_options)
    assert open_control_store(location, REAL).exists("t/_versions")


@pytest.mark.s3
def test_an_endpoint_passed_in_wins_although_the_libraries_read_the_environment_themselves(
    s3_uri: str, s3_server: Seaweed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    location = parse_location(s3_uri, REAL, storage_options={"aws_endpoint": s3_server.endpoint})
    lance.write_dataset(ROWS, location.child("t"), storage_options=location.storage_options)
    assert open_control_store(location, REAL).exists("t")
