"""Control objects on a disk and on a real S3 server: what is written is whole, and of several writers one wins."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from omnigraph.counters import counting
from omnigraph.errors import InvalidInput, ObjectChanged, ObjectExists, ObjectNotFound
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.objects.store import ObjectStore, open_control_store
from omnigraph.world import REAL


@pytest.fixture
def store(graph_uri: str) -> ObjectStore:
    return open_control_store(parse_location(graph_uri, REAL), REAL)


def test_what_is_written_is_read_back(store: ObjectStore) -> None:
    store.write("a/b.json", b"one")
    assert store.read("a/b.json") == b"one"
    store.write("a/b.json", b"two")
    assert store.read("a/b.json") == b"two"


def test_empty_and_large_objects_are_objects(store: ObjectStore) -> None:
    store.write("empty", b"")
    store.create("large", b"x" * 6_000_000)
    assert store.read("empty") == b""
    assert len(store.read("large")) == 6_000_000


def test_reading_what_is_not_there_names_it(store: ObjectStore) -> None:
    with pytest.raises(ObjectNotFound, match=r"graph\.omni/a/b"):
        store.read("a/b")


def test_a_second_create_is_refused_and_changes_nothing(store: ObjectStore) -> None:
    store.create("claim", b"first")
    with pytest.raises(ObjectExists, match="claim"):
        store.create("claim", b"second")
    assert store.read("claim") == b"first"


def test_a_name_is_free_again_after_its_deletion(store: ObjectStore) -> None:
    store.create("claim", b"first")
    store.delete("claim")
    store.create("claim", b"second")
    assert store.read("claim") == b"second"


def test_a_replacement_needs_the_present_state(store: ObjectStore) -> None:
    written = store.write("lease", b"one")
    data, read = store.read_versioned("lease")
    assert (data, read) == (b"one", written)
    second = store.replace("lease", b"two", read)
    with pytest.raises(ObjectChanged, match="read it again"):
        store.replace("lease", b"three", read)
    store.replace("lease", b"four", second)
    assert store.read("lease") == b"four"


def test_a_deleted_object_cannot_be_replaced(store: ObjectStore) -> None:
    tag = store.create("lease", b"one")
    store.delete("lease")
    with pytest.raises(ObjectChanged):
        store.replace("lease", b"two", tag)
    assert not store.exists("lease")


def test_deleting_what_is_not_there_is_fine(store: ObjectStore) -> None:
    store.delete("a/b")
    store.delete_prefix("a")


def test_a_listing_is_recursive_sorted_and_counts_whole_segments(store: ObjectStore) -> None:
    for path in ("b", "a/z", "a/c/d", "ab/x"):
        store.write(path, b"1234")
    assert store.list_names() == ["a/c/d", "a/z", "ab/x", "b"]
    assert store.list_names("a") == ["a/c/d", "a/z"]
    assert store.list_names("nothing") == []
    assert {each.size for each in store.list()} == {4}
    assert all(each.modified_us > 1_700_000_000_000_000 for each in store.list())


def test_a_prefix_is_deleted_with_everything_below_it(store: ObjectStore) -> None:
    for path in ("a/z", "a/c/d", "ab/x"):
        store.write(path, b"")
    store.delete_prefix("a")
    assert store.list_names() == ["ab/x"]
    assert not store.exists("a")


def test_many_objects_are_deleted_at_once_and_those_that_are_not_there_are_fine(store: ObjectStore) -> None:
    for path in ("a/z", "a/c%2Fd.json", "a/c/d", "ab/x"):
        store.write(path, b"")
    store.delete_all([])
    with counting() as counts:
        store.delete_all(["a/z", "a/c%2Fd.json", "a/none", "nowhere/none", "a/c/d"])
    assert store.list_names() == ["ab/x"]
    assert counts.object_deletes == 1


def test_a_listing_tells_the_tag_of_each_object(store: ObjectStore) -> None:
    tags = {path: store.write(path, path.encode()) for path in ("a", "b")}
    assert {each.path: each.e_tag for each in store.list()} == {path: tag.e_tag for path, tag in tags.items()}


def test_an_object_or_a_prefix_with_something_below_it_exists(store: ObjectStore) -> None:
    assert not store.exists("a")
    store.write("a/b/c", b"")
    assert [store.exists(path) for path in ("a", "a/b", "a/b/c", "a/b/c/d", "a/bb", "c")] == [
        *(True, True, True),
        *(False, False, False),
    ]


def test_of_many_simultaneous_creators_one_wins(store: ObjectStore) -> None:
    with ThreadPoolExecutor(4) as pool:
        won = list(pool.map(lambda writer: _succeeds(store, writer), range(4)))
    assert sorted(won) == [False, False, False, True]
    assert store.read("claim") == str(won.index(True)).encode()


@pytest.mark.parametrize("path", ["", "/a", "a/", "a//b", "../a", "a/./b", "name#12"])
def test_a_name_that_would_mean_different_things_on_different_stores_is_refused(store: ObjectStore, path: str) -> None:
    with pytest.raises(InvalidInput):
        store.write(path, b"")


def test_every_operation_is_counted(store: ObjectStore) -> None:
    with counting() as counts:
        tag = store.create("a", b"")
        store.replace("a", b"x", tag)
        store.read("a")
        store.list()
        store.delete("a")
    assert (counts.object_writes, counts.object_reads, counts.object_lists, counts.object_deletes) == (2, 1, 1, 1)
    assert counts.requests[0] == "object_writes a"


def _succeeds(store: ObjectStore, writer: int) -> bool:
    try:
        store.create("claim", str(writer).encode())
    except ObjectExists:
        return False
    return True


# -- between processes -------------------------------------------------------------------------------------------------

ADD_UP = """
import sys
from omnigraph.errors import ObjectChanged
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.objects.store import open_control_store
from omnigraph.world import REAL
store = open_control_store(parse_location(sys.argv[1], REAL), REAL)
print("ready", flush=True)
sys.stdin.readline()
done = 0
while done < int(sys.argv[2]):
    data, tag = store.read_versioned("counter")
    try:
        store.replace("counter", str(int(data) + 1).encode(), tag)
        done += 1
    except ObjectChanged:
        pass
"""

KEEP_WRITING = """
import itertools, json, sys
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.objects.store import open_control_store
from omnigraph.world import REAL
store = open_control_store(parse_location(sys.argv[1], REAL), REAL)
print("ready", flush=True)
for number in itertools.count():
    store.write(f"w/{number % 5}", json.dumps({"number": number, "filling": "x" * 200_000}).encode())
    store.create(f"c/{number}", json.dumps({"number": number}).encode())
"""


def start(program: str, *arguments: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def let_finish(processes: list[subprocess.Popen[bytes]]) -> list[int]:
    for each in processes:
        assert each.stdin is not None
        each.stdin.write(b"go\n")
        each.stdin.flush()
    for each in processes:
        each.communicate(timeout=100)
    return [each.returncode for each in processes]


def test_replacements_by_several_processes_never_overwrite_each_other(graph_uri: str) -> None:
    processes, each = (8, 25) if parse_location(graph_uri, REAL).is_local else (2, 15)
    store = open_control_store(parse_location(graph_uri, REAL), REAL)
    store.write("counter", b"0")
    assert set(let_finish([start(ADD_UP, graph_uri, str(each)) for _ in range(processes)])) == {0}
    assert store.read("counter") == str(processes * each).encode()


def test_a_killed_writer_leaves_only_whole_objects_and_blocks_nobody(graph_uri: str) -> None:
    store = open_control_store(parse_location(graph_uri, REAL), REAL)
    for pause in (0.05, 0.11, 0.17):
        process = start(KEEP_WRITING, graph_uri)
        time.sleep(pause)  # noqa: TID251
        process.kill()
        process.communicate(timeout=30)
        store.write("w/0", json.dumps({"number": 0, "filling": "x" * 200_000}).encode())
        names = store.list_names()
        assert names
        for name in names:
            assert len(json.loads(store.read(name)).get("filling", "x" * 200_000)) == 200_000
        store.delete_prefix("c")
