"""A store that breaks the rules is found out before it loses data, and nothing is left in it."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from omnigraph.errors import StorePermissionDenied, StoreUnavailable, StoreUnsafe
from omnigraph.storage.objects.location import Location, parse_location
from omnigraph.storage.objects.store import open_control_store
from omnigraph.storage.tables.probe import ensure_safe, probe_store, require_safe
from omnigraph.world import REAL, World
from servers.careless_s3 import CarelessS3, Fault

if TYPE_CHECKING:
    from pathlib import Path


def place(server: CarelessS3) -> tuple[Location, World]:
    world = World(environ=server.environment)
    return parse_location("s3://bucket/team/graph.omni", world, {"client_max_retries": "1"}), world


def test_a_good_store_is_accepted_and_left_as_it_was(graph_uri: str) -> None:
    location = parse_location(graph_uri, REAL)
    report = probe_store(location, REAL)
    require_safe(report)
    assert [check.name for check in report.checks] == [
        "a write is read back",
        "create if absent",
        "replace if unchanged",
        "a write is listed",
        "tables and control objects are together",
        "a delete is seen",
    ]
    assert open_control_store(location, REAL).list_names() == []


def test_on_a_disk_not_even_a_directory_is_left(tmp_path: Path) -> None:
    require_safe(probe_store(parse_location(tmp_path / "not" / "there" / "yet", REAL), REAL))
    assert list(tmp_path.iterdir()) == []


def test_a_graph_that_is_there_is_not_touched(tmp_path: Path) -> None:
    store = open_control_store(parse_location(tmp_path / "graph.omni", REAL), REAL)
    store.write("create/0", b"mine")
    require_safe(probe_store(store.location, REAL))
    assert store.list_names() == ["create/0"]
    assert store.read("create/0") == b"mine"


@pytest.mark.parametrize(
    ("fault", "rule", "reason"),
    [
        (Fault.IGNORES_IF_NONE_MATCH, "create if absent", "a second create of one name succeeded"),
        (Fault.IGNORES_IF_MATCH, "replace if unchanged", "a replacement of an outdated state succeeded"),
        (Fault.REFUSES_FRESH_TAGS, "replace if unchanged", "refused although nothing had changed"),
        (Fault.LACKS_IF_MATCH, "replace if unchanged", "cannot write conditionally"),
        (Fault.STALE_READS, "a write is read back", "saw an older state"),
        (Fault.STALE_LISTS, "a write is listed", "did not show it"),
    ],
)
def test_a_store_that_breaks_a_rule_is_refused_with_the_reason(fault: Fault, rule: str, reason: str) -> None:
    with CarelessS3({fault}) as server:
        report = probe_store(*place(server))
        with pytest.raises(StoreUnsafe, match=reason) as raised:
            require_safe(report)
        assert next(check for check in report.checks if not check.ok).name == rule
        assert server.objects == {}
    assert raised.value.location == "s3://bucket/team/graph.omni"


@pytest.mark.parametrize("window_seconds", [0.02, 0.005])
def test_a_store_that_is_right_one_at_a_time_and_wrong_at_the_same_time_is_refused(window_seconds: float) -> None:
    with CarelessS3({Fault.RACES}, window_seconds=window_seconds) as server:
        report = probe_store(*place(server))
        with pytest.raises(StoreUnsafe, match="simultaneous writers succeeded"):
            require_safe(report)
        assert [check.name for check in report.checks if not check.ok] == ["create if absent", "replace if unchanged"]
        assert server.objects == {}


def test_a_store_that_forbids_everything_is_refused_as_such() -> None:
    with CarelessS3({Fault.REFUSES_EVERYTHING}) as server:
        with pytest.raises(StorePermissionDenied, match=r"graph\.omni"):
            probe_store(*place(server))
        assert server.objects == {}


def test_a_store_that_forbids_deleting_is_refused() -> None:
    with CarelessS3({Fault.REFUSES_DELETES}) as server, pytest.raises(StorePermissionDenied):
        probe_store(*place(server))


def test_a_store_that_never_confirms_a_write_is_refused_and_cleared() -> None:
    with CarelessS3({Fault.DROPS_ANSWERS}) as server:
        with pytest.raises(StoreUnavailable):
            probe_store(*place(server))
        assert server.objects == {}


def test_lost_answers_alone_do_not_make_a_store_unsafe() -> None:
    with CarelessS3({Fault.DROPS_FIRST_ANSWERS}) as server:
        require_safe(probe_store(*place(server)))
        assert server.objects == {}


def test_the_clients_for_google_keep_the_rules_and_write_to_one_place() -> None:
    with CarelessS3(dialect="gs") as server:
        world = World(environ=server.environment)
        require_safe(probe_store(parse_location("gs://bucket/g", world), world))
        assert any(request.startswith("PUT /bucket/g") and "table" in request for request in server.requests)
        assert server.objects == {}


def test_a_google_store_that_races_is_refused() -> None:
    with CarelessS3({Fault.RACES}, dialect="gs") as server:
        world = World(environ=server.environment)
        with pytest.raises(StoreUnsafe, match="simultaneous writers succeeded"):
            require_safe(probe_store(parse_location("gs://bucket/g", world), world))


def test_a_file_system_without_hard_links_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(StoreUnsafe, match="hard links"):
        require_safe(probe_store(parse_location(tmp_path / "graph.omni", REAL), REAL))
    assert list(tmp_path.iterdir()) == []


def test_a_store_found_safe_is_not_asked_again() -> None:
    with CarelessS3() as server:
        location, world = place(server)
        ensure_safe(location, world)
        asked = len(server.requests)
        ensure_safe(parse_location("s3://bucket/another/graph", world), world)
        assert asked > 0
        assert len(server.requests) == asked
        ensure_safe(parse_location("s3://another-bucket/graph", world), world)
        assert len(server.requests) > asked


def test_a_store_found_unsafe_is_asked_again() -> None:
    with CarelessS3({Fault.IGNORES_IF_NONE_MATCH}) as server:
        with pytest.raises(StoreUnsafe):
            ensure_safe(*place(server))
        server.faults = frozenset()
        ensure_safe(*place(server))
