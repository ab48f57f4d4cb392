"""Two changes staged on one version of a table: which of them land, and what the second is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from omnigraph.errors import CommitConflict, CommitFailed, CommitRejected
from omnigraph.storage.tables.staging import commit_staged, stage_append
from storage.every_type import fresh, ids, made, open_store, small
from storage.writers_of_tables import WRITERS

if TYPE_CHECKING:
    from pathlib import Path


def test_a_foreign_commit_below_an_append_is_told(graph_uri: str) -> None:
    store = open_store(graph_uri)
    table = made(store, small("a"))
    mine = stage_append(table, small("mine"))
    commit_staged(stage_append(table, small("theirs")))
    landed = commit_staged(mine)
    assert (landed.version, landed.contiguous) == (3, False)
    assert ids(fresh(table, store)) == ["a", "mine", "theirs"]


# Second writer, first writer: what happens to the second. The whole matrix of operations is in tests/conformance.
PAIRS = [
    ("append", "upsert", None),
    ("append", "delete", None),
    ("append", "compact", None),
    ("append", "overwrite", CommitRejected),
    ("append", "restore", CommitRejected),
    ("upsert", "append", None),
    ("upsert", "upsert", CommitConflict),
    ("upsert", "delete", CommitConflict),
    ("upsert", "compact", CommitConflict),
    ("upsert", "overwrite", CommitRejected),
    ("delete", "upsert", CommitConflict),
    ("delete", "delete", CommitConflict),
    ("delete", "append", None),
    ("overwrite", "append", CommitConflict),
    ("overwrite", "overwrite", CommitConflict),
    ("overwrite", "index", CommitConflict),
    ("restore", "append", None),
    ("restore", "upsert", None),
    ("index", "append", None),
    ("index", "index", CommitConflict),
    ("index", "overwrite", CommitRejected),
    ("compact", "append", None),
    ("compact", "upsert", CommitConflict),
    ("compact", "delete", CommitConflict),
    ("compact", "compact", CommitConflict),
]


@pytest.mark.parametrize(("second", "first", "outcome"), PAIRS)
def test_two_writers_of_one_version(
    tmp_path: Path, first: str, second: str, outcome: type[CommitFailed] | None
) -> None:
    store = open_store(str(tmp_path))
    table = commit_staged(stage_append(made(store, small("a")), small("b"))).table
    loser, winner = WRITERS[second](table), WRITERS[first](table)
    assert commit_staged(winner).contiguous
    if outcome is None:
        landed = commit_staged(loser)
        assert (landed.version, landed.contiguous) == (4, False)
        return
    with pytest.raises(outcome) as caught:
        commit_staged(loser)
    assert type(caught.value) is outcome
    assert caught.value.retryable is (outcome is CommitConflict)
    assert fresh(table, store).version == 3
