"""How long ago a state was the newest is told by the store's clock: those of writers and cleaners may be wrong."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest

import omnigraph as og
from maintenance.library import doc, library, put, slugs
from maintenance.sleepers import clean, clean_after, put_one
from omnigraph.world import CLOCK_SKEW, REAL

if TYPE_CHECKING:
    from pathlib import Path

    from crash.zygote import Zygote

pytestmark = pytest.mark.crash

BEHIND, AHEAD = {CLOCK_SKEW: "-3600"}, {CLOCK_SKEW: "3600"}


def test_a_writer_whose_clock_is_an_hour_behind_takes_nothing_from_readers(tmp_path: Path, zygote: Zygote) -> None:
    graph = library(tmp_path, 2)
    held = graph.commits()[0].id
    for number in (2, 3):
        assert zygote.run(put_one, graph.uri, number, environment=BEHIND).succeeded
    written = og.open(graph.uri).commits()[0]
    assert REAL.now_us() - written.created_us > 3_500 * 1_000_000
    og.open(graph.uri).cleanup(keep=1)
    assert slugs(og.open(graph.uri), held) == ["d0", "d1"]
    clean(graph.uri)
    with pytest.raises(og.errors.VersionReclaimed):
        slugs(og.open(graph.uri), held)


@pytest.mark.parametrize("clock", [BEHIND, AHEAD])
def test_a_cleaner_whose_clock_is_wrong_takes_what_any_other_would(
    tmp_path: Path, zygote: Zygote, clock: dict[str, str]
) -> None:
    graph = library(tmp_path, 4)
    taken = zygote.run(clean_after, graph.uri, 600.0, environment=clock)
    assert taken.value == 0
    REAL.sleep(5.2)
    put(graph, doc(4))
    taken = zygote.run(clean_after, graph.uri, 5.0, environment=clock)
    assert taken.value >= 3
    assert slugs(og.open(graph.uri), graph.commits()[1].id) == ["d0", "d1", "d2", "d3"]


def test_a_state_counts_as_the_newest_until_the_next_one_is_visible(tmp_path: Path, zygote: Zygote) -> None:
    """A write that died before its publish and was recovered later moved its table long before anybody saw it."""
    graph = library(tmp_path, 3)
    held = graph.commits()[0].id
    assert zygote.run(put_one, graph.uri, 3, failpoints="commit.before_publish=kill").killed
    REAL.sleep(5.5)
    assert slugs(og.open(graph.uri)) == ["d0", "d1", "d2", "d3"]
    clean_after(graph.uri, 5.4)
    assert slugs(og.open(graph.uri), held) == ["d0", "d1", "d2"]


def test_a_given_age_is_that_of_the_commits(tmp_path: Path, zygote: Zygote) -> None:
    """What people mean by the age of a commit is the time that it tells itself."""
    graph = library(tmp_path, 2)
    assert zygote.run(put_one, graph.uri, 2, environment=BEHIND).succeeded
    put(graph, doc(3))
    behind = graph.commits()[1].id
    graph.cleanup(keep=None, older_than=dt.timedelta(minutes=30), grace=dt.timedelta(0))
    with pytest.raises(og.errors.VersionReclaimed):
        slugs(og.open(graph.uri), behind)
    assert slugs(og.open(graph.uri), graph.commits()[2].id) == ["d0", "d1"]
