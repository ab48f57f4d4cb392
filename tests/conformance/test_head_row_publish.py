"""The way OmniGraph publishes: one staged Update that replaces the head row, so that two publishers always collide."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

import lance
import pytest
from lance import LanceDataset
from lance.commit import CommitConflictError

from conformance import writers
from conformance.head_row import (
    chain,
    compact,
    create,
    create_with_lone_head,
    head_commit,
    keyed_publish,
    publish,
    stage_lone_head_publish,
    stage_publish,
)
from conformance.writers import Crew, meet_at

if TYPE_CHECKING:
    from pathlib import Path

EIGHT = 8


@pytest.fixture
def manifest(tmp_path: Path) -> LanceDataset:
    return create(str(tmp_path / "__manifest"))


def test_a_publish_replaces_the_head_and_adds_its_rows_in_one_version(manifest: LanceDataset) -> None:
    after = publish(manifest, "c1")
    assert after.version == manifest.version + 1
    assert head_commit(after) == "c1"
    assert after.count_rows() == 5
    assert chain(after) == ["c1", "genesis"]


def test_the_second_of_two_publishes_from_one_version_is_told_to_retry(manifest: LanceDataset) -> None:
    one, two = stage_publish(manifest, "one"), stage_publish(manifest, "two")
    LanceDataset.commit(manifest, one, max_retries=0)
    with pytest.raises(CommitConflictError, match="Retryable commit conflict") as lost:
        LanceDataset.commit(manifest, two, max_retries=0)
    assert lost.value.retryable
    assert chain(lance.dataset(manifest.uri)) == ["one", "genesis"]


def test_the_default_number_of_retries_does_not_let_the_second_publish_through(manifest: LanceDataset) -> None:
    one, two = stage_publish(manifest, "one"), stage_publish(manifest, "two")
    LanceDataset.commit(manifest, one)
    with pytest.raises(CommitConflictError):
        LanceDataset.commit(manifest, two)


@pytest.mark.parametrize("keep_head_row_id", [False, True])
def test_two_publishes_collide_when_the_head_is_alone_in_its_fragment(tmp_path: Path, keep_head_row_id: bool) -> None:
    """Then the old head's fragment is removed, not updated; a removed fragment conflicts just as well."""
    manifest = create_with_lone_head(str(tmp_path / "__manifest"))
    one, two = (stage_lone_head_publish(manifest, c, keep_head_row_id=keep_head_row_id) for c in ("one", "two"))
    LanceDataset.commit(manifest, one, max_retries=0)
    with pytest.raises(CommitConflictError) as lost:
        LanceDataset.commit(manifest, two, max_retries=0)
    assert lost.value.retryable
    assert chain(lance.dataset(manifest.uri)) == ["one", "genesis"]


@pytest.mark.parametrize("keep_head_row_id", [False, True])
def test_a_lone_head_publish_after_a_keyed_one_is_told_to_retry(tmp_path: Path, keep_head_row_id: bool) -> None:
    manifest = create_with_lone_head(str(tmp_path / "__manifest"))
    staged = stage_lone_head_publish(manifest, "staged", keep_head_row_id=keep_head_row_id)
    keyed_publish(lance.dataset(manifest.uri), "keyed")
    with pytest.raises(CommitConflictError) as lost:
        LanceDataset.commit(manifest, staged, max_retries=0)
    assert lost.value.retryable


@pytest.mark.parametrize("keep_head_row_id", [False, True])
def test_a_keyed_publish_after_a_lone_head_one_is_refused(tmp_path: Path, keep_head_row_id: bool) -> None:
    manifest = create_with_lone_head(str(tmp_path / "__manifest"))
    staged = stage_lone_head_publish(manifest, "staged", keep_head_row_id=keep_head_row_id)
    LanceDataset.commit(manifest.uri, staged, max_retries=0)
    with pytest.raises(OSError, match=r"Too many concurrent writers\. Attempted 0 retries"):
        keyed_publish(manifest, "late")


def test_a_publish_after_a_keyed_merge_insert_of_the_head_is_told_to_retry(manifest: LanceDataset) -> None:
    staged = stage_publish(manifest, "staged")
    keyed_publish(lance.dataset(manifest.uri), "keyed")
    with pytest.raises(CommitConflictError) as lost:
        LanceDataset.commit(manifest, staged, max_retries=0)
    assert lost.value.retryable


def test_a_keyed_merge_insert_after_a_publish_is_refused(manifest: LanceDataset) -> None:
    publish(lance.dataset(manifest.uri), "staged")
    with pytest.raises(OSError, match=r"Too many concurrent writers\. Attempted 0 retries"):
        keyed_publish(manifest, "keyed")
    assert chain(lance.dataset(manifest.uri)) == ["staged", "genesis"]


def test_a_publish_after_a_compaction_is_told_to_retry(manifest: LanceDataset) -> None:
    tall = publish(publish(manifest, "c1"), "c2")
    staged = stage_publish(tall, "c3")
    compact(tall)
    with pytest.raises(CommitConflictError) as lost:
        LanceDataset.commit(tall, staged, max_retries=0)
    assert lost.value.retryable


def test_a_compaction_after_a_publish_is_told_to_retry(manifest: LanceDataset) -> None:
    tall = publish(publish(manifest, "c1"), "c2")
    publish(lance.dataset(tall.uri), "c3")
    with pytest.raises(CommitConflictError) as lost:
        compact(tall)
    assert lost.value.retryable


def test_processes_that_publish_at_once_make_one_chain(manifest: LanceDataset, crew: Crew) -> None:
    crew.all(writers.publish_many, manifest.uri)
    _one_chain_of(manifest.uri, 8 * Crew.SIZE)


@pytest.mark.slow
def test_eight_processes_that_publish_twenty_times_make_one_chain_of_160(manifest: LanceDataset) -> None:
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(EIGHT)
    with ProcessPoolExecutor(EIGHT, mp_context=spawn, initializer=meet_at, initargs=(barrier,)) as pool:
        tasks = [pool.submit(writers.together, writers.publish_twenty, manifest.uri, n) for n in range(EIGHT)]
        conflicts = sum(task.result(timeout=writers.PATIENCE_S) for task in tasks)
    assert conflicts > 0
    _one_chain_of(manifest.uri, 160)


def _one_chain_of(uri: str, commits: int) -> None:
    newest = lance.dataset(uri)
    newest.validate()
    objects = newest.to_table(columns=["object_id"])["object_id"].to_pylist()
    assert len(objects) == len(set(objects)) == 2 * (commits + 1) + 1
    assert len(chain(newest)) == commits + 1
    assert newest.version == commits + 1
