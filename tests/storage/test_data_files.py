"""Files of tasks that were written beside another branch are copied, under the lease of their writer."""

from __future__ import annotations

import pytest

from omnigraph.counters import counting, guarded
from omnigraph.errors import LeaseLost
from omnigraph.storage.lance.data_files import take_over
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.objects.store import open_control_store
from omnigraph.world import REAL

FILES = {"nodes/a/data/one.lance": b"1", "nodes/a/data/two.lance": b"2", "nodes/a/data/two/blob.bin": b"blob"}
COPIES = {name.replace("nodes/a/", "nodes/a/tree/dev/"): data for name, data in FILES.items()}


def test_data_files_are_copied_with_their_blobs(graph_uri: str) -> None:
    objects = open_control_store(parse_location(graph_uri, REAL), REAL)
    for name, data in FILES.items():
        objects.write(name, data)
    for _ in range(2):
        with counting() as counts:
            take_over(
                objects.location, ["one.lance", "two.lance"], source="nodes/a", target="nodes/a/tree/dev", world=REAL
            )
        assert sorted(counts.requests) == [
            f"object_writes nodes/a/tree/dev/data/{name}.lance" for name in ("one", "two")
        ]
    assert {name: objects.read(name) for name in objects.list_names()} == {**FILES, **COPIES}


def test_no_file_is_copied_when_another_has_the_lease(graph_uri: str) -> None:
    objects = open_control_store(parse_location(graph_uri, REAL), REAL)
    for name, data in FILES.items():
        objects.write(name, data)

    def lost() -> None:
        raise LeaseLost("another has it")

    with guarded(lost), pytest.raises(LeaseLost):
        take_over(objects.location, ["one.lance", "two.lance"], source="nodes/a", target="nodes/a/tree/dev", world=REAL)
    assert sorted(objects.list_names()) == sorted(FILES)
