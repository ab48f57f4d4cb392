"""The one door to clock, randomness, processes and environment."""

from __future__ import annotations

import ast
import subprocess
import sys
import threading
import time

from omnigraph.world import REAL, World, encode_ulid
from seeded_world import SeededWorld
from source import modules

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def decoded(ulid: str) -> tuple[int, int]:
    """Milliseconds and randomness."""
    value = 0
    for character in ulid:
        value = value * 32 + _CROCKFORD.index(character)
    return value >> 80, value & (2**80 - 1)


def test_a_ulid_holds_its_time_and_its_randomness() -> None:
    assert encode_ulid(0, 0) == "0" * 26
    assert encode_ulid(2**48 - 1, 2**80 - 1) == "7" + "Z" * 25
    assert encode_ulid(1_469_918_176_385, 0)[:10] == "01ARYZ6S41"
    assert decoded(encode_ulid(1_782_650_000_000, 123_456_789)) == (1_782_650_000_000, 123_456_789)


def test_ulids_of_one_clock_are_in_the_order_of_time_and_never_repeat() -> None:
    before = REAL.now_us() // 1_000
    made = [REAL.ulid() for _ in range(2_000)]
    after = REAL.now_us() // 1_000
    times = [decoded(each)[0] for each in made]
    assert times == sorted(times)
    assert before <= times[0] <= times[-1] <= after
    assert len(set(made)) == len(made)


def test_random_bits_fill_their_width_and_no_more() -> None:
    drawn = [REAL.random_bits(80) for _ in range(500)]
    assert all(0 <= each < 2**80 for each in drawn)
    assert max(drawn) > 2**78
    assert len(set(drawn)) == len(drawn)


def test_the_clock_is_in_microseconds_and_the_other_one_never_goes_back() -> None:
    assert abs(REAL.now_us() - time.time() * 1_000_000) < 5_000_000  # noqa: TID251
    readings = [REAL.monotonic() for _ in range(100)]
    assert readings == sorted(readings)


def test_a_seeded_world_replays() -> None:
    def run(seed: int) -> list[object]:
        world = SeededWorld(seed=seed)
        return [world.now_us(), world.ulid(), world.random_bits(16), world.ulid(), world.now_us()]

    assert run(1) == run(1)
    assert run(1)[1:4] != run(2)[1:4]


def test_a_seeded_clock_moves_by_a_millisecond_and_never_waits() -> None:
    world = SeededWorld()
    first, second = world.now_us(), world.now_us()
    assert second - first == 1_000
    began = time.monotonic()
    world.sleep(3_600)
    assert time.monotonic() - began < 1


def test_a_seeded_world_gives_no_moment_twice_to_threads() -> None:
    world = SeededWorld()
    seen: list[int] = []
    threads = [threading.Thread(target=lambda: seen.extend(world.now_us() for _ in range(200))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == len(seen) == 1_600


def test_this_process_runs_and_others_do_not() -> None:
    assert REAL.is_running(REAL.process())
    number, _, started = REAL.process().partition(":")
    assert started
    for other in (f"{number}:{int(started) + 1}", "999999999:1", "", ":", "x:1", "-1:1", number):
        assert not REAL.is_running(other)


def test_a_child_runs_until_it_is_killed_even_before_anybody_waits_for_it() -> None:
    tell = "from omnigraph.world import REAL; import sys; print(REAL.process(), flush=True); sys.stdin.read()"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", tell], stdin=pipe, stdout=pipe, text=True) as child:
        assert child.stdout is not None
        process = child.stdout.readline().strip()
        assert REAL.is_running(process)
        child.kill()
        deadline = time.monotonic() + 10
        while REAL.is_running(process) and time.monotonic() < deadline:
            time.sleep(0.01)  # noqa: TID251
        assert not REAL.is_running(process)
        assert child.returncode is None


def test_a_host_is_the_same_for_all_its_processes_and_more_than_its_name() -> None:
    tell = "from omnigraph.world import REAL; print(REAL.host())"
    told = subprocess.run([sys.executable, "-c", tell], capture_output=True, text=True, check=True).stdout.strip()
    assert told == REAL.host()
    name, boot, space = REAL.host().rsplit(":", 2)
    assert name
    assert len(boot) == 8
    assert space.isdigit()


def test_an_environment_can_be_given() -> None:
    assert World({"A": "1"}).environ == {"A": "1"}
    assert REAL.environ["PATH"]


BANNED = {
    *(
        "time.time",
        "time.time_ns",
        "time.sleep",
        "time.monotonic",
        "datetime.now",
        "datetime.utcnow",
        "dt.datetime.now",
    ),
    *("uuid.uuid4", "uuid4", "os.environ", "os.getenv", "os.urandom", "socket.gethostname"),
    *("random.random", "random.randint", "secrets.token_hex", "date.today"),
}


def test_nothing_else_asks_the_outside_world() -> None:
    strays = [
        f"{file}:{node.lineno} {ast.unparse(node)}"
        for file, tree in modules().items()
        if file != "world.py"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute | ast.Name) and ast.unparse(node) in BANNED
    ]
    assert strays == []
