"""Control objects in a bucket: what a refusal, an outage and a lost answer mean."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from omnigraph.counters import counting
from omnigraph.errors import InvalidUri, ObjectChanged, ObjectExists, StorePermissionDenied, StoreUnavailable
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.objects.store import ObjectStore, open_control_store
from omnigraph.world import REAL, World
from servers.careless_s3 import CarelessS3, Fault
from servers.counting_proxy import CountingProxy, _Handler
from servers.seaweed import Seaweed

if TYPE_CHECKING:
    from pathlib import Path


def careless_store(server: CarelessS3, **options: str) -> ObjectStore:
    world = World(environ=server.environment)
    return open_control_store(parse_location("s3://bucket/g", world, options), world)


@pytest.mark.s3
def test_a_missing_bucket_is_told_by_every_operation(s3_uri: str) -> None:
    store = open_control_store(parse_location("s3://no-such-bucket/g", REAL), REAL)
    for attempt in (
        lambda: store.read("a"),
        lambda: store.create("a", b""),
        lambda: store.write("a", b""),
        lambda: store.list(),
        lambda: store.exists("a"),
    ):
        with pytest.raises(StoreUnavailable, match="bucket is not there"):
            attempt()


@pytest.mark.s3
def test_wrong_credentials_are_a_refusal_and_are_not_repeated(s3_uri: str) -> None:
    store = open_control_store(
        parse_location(s3_uri, REAL, storage_options={"aws_secret_access_key": "hunter2hunter2"}), REAL
    )
    for attempt in (
        lambda: store.read("a"),
        lambda: store.create("a", b""),
        lambda: store.list(),
        lambda: store.exists("a"),
        lambda: store.delete("a"),
    ):
        with pytest.raises(StorePermissionDenied, match="credentials") as raised:
            attempt()
        assert "hunter2" not in str(raised.value)
        assert raised.value.__cause__ is None


def test_a_store_that_does_not_answer_is_unavailable_within_seconds() -> None:
    world = World(environ={"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_ALLOW_HTTP": "true"})
    location = parse_location("s3://b/g", world, {"aws_endpoint": "http://127.0.0.1:1", "client_max_retries": "1"})
    with pytest.raises(StoreUnavailable, match="endpoint"):
        open_control_store(location, world).create("a", b"")


def test_an_unknown_setting_is_named() -> None:
    world = World(environ={})
    with pytest.raises(InvalidUri, match="aws_colour"):
        open_control_store(parse_location("s3://b/g", world, {"aws_colour": "blue"}), world)


@pytest.mark.s3
def test_the_requests_on_the_wire_are_the_ones_that_are_counted(s3_uri: str, s3_server: Seaweed) -> None:
    with CountingProxy(s3_server.endpoint) as proxy:
        store = open_control_store(parse_location(s3_uri, REAL, storage_options={"aws_endpoint": proxy.endpoint}), REAL)
        with counting() as counts:
            tag = store.create("a", b"")
            store.replace("a", b"x", tag)
            with pytest.raises(ObjectExists):
                store.create("a", b"y")
            store.read("a")
            store.exists("b")
            store.delete("a")
    assert proxy.counts == {"PUT": 3, "GET": 2, "HEAD": 1, "LIST": 1, "DELETE": 1}
    assert counts.objects == len(proxy.requests)
    assert [each.conditional for each in proxy.requests if each.method == "PUT"] == [True, True, True]


@pytest.mark.s3
def test_a_restart_of_the_server_is_bridged(tmp_path: Path) -> None:
    server = Seaweed(tmp_path)
    try:
        server.start()
        world = World(environ=server.environment)
        store = open_control_store(parse_location(f"s3://{server.bucket}/g", world), world)
        tag = store.create("a", b"before")
        server.kill()
        restart = threading.Timer(0.3, server.start)
        restart.start()
        store.replace("a", b"after", tag)
        restart.join()
        assert store.read("a") == b"after"
    finally:
        server.kill()


# -- when answers are lost ---------------------------------------------------------------------------------------------


def test_a_create_whose_answer_was_lost_knows_its_own_object() -> None:
    with CarelessS3({Fault.DROPS_FIRST_ANSWERS}) as server:
        store = careless_store(server)
        store.create("claim", b"mine")
        with pytest.raises(ObjectExists):
            store.create("claim", b"mine")
        assert [each for each in server.requests if each.startswith("PUT")] == ["PUT /bucket/g/claim"] * 3


def test_a_replacement_whose_answer_was_lost_knows_its_own_object() -> None:
    with CarelessS3() as server:
        store = careless_store(server)
        first = store.create("lease", b"one")
        server.faults = frozenset({Fault.DROPS_FIRST_ANSWERS})
        second = store.replace("lease", b"two", first)
        assert store.replace("lease", b"three", second) != second
        assert store.read("lease") == b"three"


def test_the_equal_bytes_of_somebody_else_are_not_taken_for_ours() -> None:
    with CarelessS3() as server:
        careless_store(server).create("schema", b"the same schema")
        with pytest.raises(ObjectExists):
            careless_store(server).create("schema", b"the same schema")


def test_a_write_without_any_answer_says_that_it_may_have_landed() -> None:
    with CarelessS3({Fault.DROPS_ANSWERS}) as server:
        with pytest.raises(StoreUnavailable, match="may have been applied"):
            careless_store(server, client_max_retries="1").write("a", b"x")
        assert list(server.objects) == ["bucket/g/a"]


# -- Google and Azure --------------------------------------------------------------------------------------------------


def test_the_google_client_takes_the_same_path() -> None:
    with CarelessS3(dialect="gs") as server:
        world = World(environ=server.environment)
        store = open_control_store(parse_location("gs://bucket/g", world), world)
        tag = store.create("a/b", b"one")
        with pytest.raises(ObjectExists):
            store.create("a/b", b"two")
        store.replace("a/b", b"three", tag)
        with pytest.raises(ObjectChanged):
            store.replace("a/b", b"four", tag)
        assert (store.read("a/b"), store.list_names("a"), store.exists("a")) == (b"three", ["a/b"], True)
        store.delete_prefix("a")
        assert not server.objects


def test_an_azure_location_makes_a_client_for_its_container() -> None:
    world = World(environ={"AZURE_STORAGE_ACCOUNT_NAME": "acc", "AZURE_STORAGE_ACCOUNT_KEY": "aHVudGVyMg=="})
    store = open_control_store(parse_location("az://container/team/g", world), world)
    assert "container" in repr(store)
    assert "aHVudGVyMg" not in repr(store)


def test_an_azure_location_without_an_account_says_what_is_missing() -> None:
    world = World(environ={})
    with pytest.raises(InvalidUri, match="Account must be specified"):
        open_control_store(parse_location("az://container/g", world), world)


# -- many at once ------------------------------------------------------------------------------------------------------


class _NoBulk(_Handler):
    """A server that knows nothing of removing many objects with one request."""

    def relay(self) -> None:
        if self.command != "POST":
            super().relay()
            return
        self._body()
        self.send_response_only(405, "no such thing")
        self.send_header("Content-Length", "0")
        self.end_headers()
        self.wfile.flush()

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = relay  # noqa: N815


@pytest.mark.s3
def test_where_many_cannot_be_deleted_at_once_they_are_deleted_one_by_one(s3_server: Seaweed, s3_uri: str) -> None:
    with CountingProxy(s3_server.endpoint) as proxy:
        proxy._server.RequestHandlerClass = _NoBulk
        store = open_control_store(parse_location(s3_uri, REAL, storage_options={"aws_endpoint": proxy.endpoint}), REAL)
        for name in "abc":
            store.write(name, b"")
        store.delete_all(["a", "b", "none"])
        assert store.list_names() == ["c"]
        assert proxy.counts["DELETE"] == 3


@pytest.mark.s3
def test_many_are_deleted_with_one_request(s3_server: Seaweed, s3_uri: str) -> None:
    with CountingProxy(s3_server.endpoint) as proxy:
        store = open_control_store(parse_location(s3_uri, REAL, storage_options={"aws_endpoint": proxy.endpoint}), REAL)
        for name in "abc":
            store.write(name, b"")
        proxy.reset()
        store.delete_all(["a", "b", "none"])
        assert [each.method for each in proxy.requests] == ["POST"]
        assert store.list_names() == ["c"]
